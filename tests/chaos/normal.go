package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// normal is what came of requests without faults: conversations of two turns, the second by
// way of the other replica.
type normal struct {
	Requests int           `json:"requests"`
	Turns    int           `json:"conversations"`
	Failed   []string      `json:"failed"`
	Followed int           `json:"second_turns_found_cached"`
	Median   time.Duration `json:"median_ns"`
	Slowest  time.Duration `json:"slowest_ns"`
	// Predicted and Cached are tokens, of the second turns.
	Predicted int `json:"predicted_cached_tokens"`
	Cached    int `json:"cached_tokens"`
}

// turn is one answer.
type turn struct {
	Usage struct {
		Prompt  int `json:"prompt_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	predicted int
	took      time.Duration
}

// converse sends the normal requests of so many conversations, one after the other.
func (d *doors) converse(ctx context.Context, seed uint64, conversations int) *normal {
	rng := rand.New(rand.NewPCG(seed, 2000)) //nolint:gosec // repeatable on purpose
	n := &normal{Turns: conversations}
	var times []time.Duration
	for i := range conversations {
		first := fmt.Sprintf("Conversation %d of %d. %s", i, seed, prose(rng, 3000))
		one, err := d.ask(ctx, i%2, first)
		n.Requests++
		if err != nil {
			n.Failed = append(n.Failed, err.Error())
			continue
		}
		pause(ctx, 150*time.Millisecond) // for the other replica to hear of it
		two, err := d.ask(ctx, (i+1)%2, first+prose(rng, 400))
		n.Requests++
		if err != nil {
			n.Failed = append(n.Failed, err.Error())
			continue
		}
		times = append(times, one.took, two.took)
		n.Predicted += two.predicted
		n.Cached += two.Usage.Details.Cached
		if two.Usage.Details.Cached >= one.Usage.Prompt/2 {
			n.Followed++
		}
	}
	slices.Sort(times)
	if len(times) > 0 {
		n.Median, n.Slowest = times[len(times)/2], times[len(times)-1]
	}
	return n
}

// ask sends one chat through a replica.
func (d *doors) ask(ctx context.Context, at int, prompt string) (*turn, error) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	chat := &dialect{shape: shapeChat}
	r := d.fleet.replicas[at]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(string(chat.body(prompt, 8))))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := d.carrier[0].Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	one := &turn{took: time.Since(began)}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, cut(text))
	}
	if err == nil {
		err = json.Unmarshal(text, one)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: a normal request", r.name), err)
	}
	one.predicted, _ = strconv.Atoi(resp.Header.Get("X-Warmroute-Predicted-Cached-Tokens"))
	return one, nil
}
