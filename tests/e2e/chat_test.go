package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func user(text string) message { return message{"user", text} }

// ask is one chat request.
type ask struct {
	messages []message
	tokens   int    // of the answer; 0 is 1
	pin      string // backend
	whole    bool   // not streamed
	model    string // empty is the doubles'
	id       string // of the request; empty is a new one
}

// reply is what came back.
type reply struct {
	id      string // of the request
	status  int
	backend string
	reason  string
	text    string
	done    bool // the stream ended with its terminator
	prompt  int
	cached  int
	body    string // of an answer that is not a stream
}

var requests atomic.Uint64

// chat sends a chat request and reads its answer to the end. The error is the
// transport's: an answer that broke off.
func (f *fleet) chat(ctx context.Context, a ask) (reply, error) {
	f.t.Helper()
	resp, r, err := f.open(ctx, a)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	if a.whole || r.status != http.StatusOK {
		data, err := io.ReadAll(resp.Body)
		r.body = string(data)
		return r, err
	}
	return r, r.follow(resp.Body)
}

// open sends a chat request and returns when the headers of its answer are there.
func (f *fleet) open(ctx context.Context, a ask) (*http.Response, reply, error) {
	f.t.Helper()
	body := map[string]any{"model": model, "messages": a.messages, "max_tokens": max(a.tokens, 1)}
	if a.model != "" {
		body["model"] = a.model
	}
	if !a.whole {
		body["stream"] = true
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	data, err := json.Marshal(body)
	if err != nil {
		f.t.Error(err)
	}
	r := reply{id: a.id}
	if r.id == "" {
		r.id = fmt.Sprintf("request-%d", requests.Add(1))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/chat/completions", strings.NewReader(string(data)))
	if err != nil {
		f.t.Error(err)
		return nil, r, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", r.id)
	if a.pin != "" {
		req.Header.Set("X-Warmroute-Backend", a.pin)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, r, err
	}
	r.status = resp.StatusCode
	r.backend, r.reason = resp.Header.Get("X-Warmroute-Backend"), resp.Header.Get("X-Warmroute-Reason")
	return resp, r, nil
}

// follow reads a stream to its end.
func (r *reply) follow(body io.Reader) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		if data == "[DONE]" {
			r.done = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
			Usage *struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return err
		}
		if chunk.Error != nil {
			return errors.New(chunk.Error.Message)
		}
		for _, c := range chunk.Choices {
			r.text += c.Delta.Content
		}
		if u := chunk.Usage; u != nil {
			r.prompt, r.cached = u.Prompt, u.Details.Cached
		}
	}
	return lines.Err()
}

// mustChat is chat for requests that have to go well.
func (f *fleet) mustChat(a ask) reply {
	f.t.Helper()
	r, err := f.chat(f.t.Context(), a)
	if err != nil || r.status != http.StatusOK || !a.whole && !r.done {
		f.t.Fatalf("%+v: %v", r, err)
	}
	return r
}

// hold sends chat requests, one after the other, that hang until the double's hang
// is cleared, and returns once all are in flight. The answers come on the channel.
func (f *fleet) hold(n int, backend, text string) <-chan reply {
	f.t.Helper()
	total := func() int {
		sum := 0
		for _, n := range f.inFlight() {
			sum += n
		}
		return sum
	}
	before := total()
	answers := make(chan reply, n)
	for i := range n {
		go func() {
			r, err := f.chat(f.t.Context(), ask{messages: []message{user(fmt.Sprintf("%s (%d)", text, i))}, pin: backend})
			if err != nil {
				f.t.Errorf("a request that hung: %v", err)
			}
			answers <- r
		}()
		f.await("one more request hangs", func() bool { return total() == before+i+1 })
	}
	return answers
}

// atOnce runs n functions at the same time and waits for all.
func atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			do(i)
		})
	}
	close(gate)
	all.Wait()
}

// limited runs n functions, at most width at the same time.
func limited(n, width int, do func(i int)) {
	var next atomic.Int64
	atOnce(width, func(int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i)
		}
	})
}

var proseWords = strings.Fields("the pump valve reports pressure when every second engine in hall seven stops before noon and " +
	"nobody has checked that oil level since a new crew took over from those who built it")

// prose returns text of a length in bytes that depends on the seed.
func prose(seed uint64, size int) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var text strings.Builder
	fmt.Fprintf(&text, "Report %d:", seed)
	for text.Len() < size {
		text.WriteString(" " + proseWords[rng.IntN(len(proseWords))])
	}
	return text.String()[:size]
}

// shares counts how often each backend occurs.
type shares struct {
	mu sync.Mutex
	of map[string]int
}

func (s *shares) add(backend string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.of[backend]++
}

func TestProseIsStable(t *testing.T) {
	if a, b := prose(1, 1000), prose(1, 2000); len(a) != 1000 || a != b[:1000] || a[:100] == prose(2, 100) {
		t.Error("equal seeds must give one text, different seeds another")
	}
}
