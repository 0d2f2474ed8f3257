//go:build !race

// The race detector takes too much of the machine for what is measured here.

package sharing

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
	"github.com/warmroute/warmroute/router"
)

// How good four routers behind a round robin have to be beside one.
const (
	replicas    = 4
	mostLost    = 0.01 // of the hit rate
	mostSlower  = 1.1  // of the TTFT at P90, as a ratio
	shareWithin = 50 * time.Millisecond
)

// doubles starts engines whose caches are modelled.
func doubles(t *testing.T, n int, c server.Config) engines {
	t.Helper()
	all := make(engines)
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		engine, err := server.New(c)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() error { return engine.Run(ctx) })
		web := httptest.NewServer(engine)
		t.Cleanup(web.Close)
		all[fmt.Sprintf("b%d:80", i)] = web.Listener.Addr().String()
	}
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("engines: %v", err)
		}
	})
	return all
}

// answer is what an engine reports of one request, and when its first token came.
type answer struct {
	prompt, cached int
	ttft           time.Duration
}

// stream sends a chat request that is streamed and reads its answer to the end.
func (d *door) stream(messages []message) (a answer, err error) {
	body, err := json.Marshal(map[string]any{
		"model": "sim", "messages": messages, "max_tokens": 8, "stream": true, "stream_options": map[string]any{"include_usage": true},
	})
	if err != nil {
		return a, err
	}
	began := time.Now()
	resp, err := d.client.Post(d.url+"/v1/chat/completions", "application/json", strings.NewReader(string(body))) //nolint:noctx // the client has a timeout
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: {")
		if !found {
			continue
		}
		a.ttft = cmp.Or(a.ttft, time.Since(began))
		var chunk struct {
			Usage *struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			return a, err
		}
		if u := chunk.Usage; u != nil {
			a.prompt, a.cached = u.Prompt, u.Details.Cached
		}
	}
	return a, lines.Err()
}

// outcome is what all answers of a fleet come to.
type outcome struct {
	hitRate float64
	p90     time.Duration // of the TTFT
}

// play asks questions about documents of routers in turn, at a rate per second.
func play(t *testing.T, doors []*door, documents, n, rate int) outcome {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	asked := make([]uint64, n)
	for i := range asked {
		asked[i] = uint64(rng.IntN(documents))
	}
	answers := make([]answer, n)
	paced(n, rate, func(i int) {
		turn := question(asked[i], 16_000)
		turn[0].Content += fmt.Sprintf(" Question %d: what does it say?", i)
		var err error
		if answers[i], err = doors[i%len(doors)].stream(turn); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	})
	var o outcome
	prompt, cached := 0, 0
	var ttfts []time.Duration
	for _, a := range answers {
		prompt, cached = prompt+a.prompt, cached+a.cached
		ttfts = append(ttfts, a.ttft)
	}
	slices.Sort(ttfts)
	o.hitRate, o.p90 = float64(cached)/float64(prompt), ttfts[n*9/10]
	return o
}

// TestRD10ReplicasBehindRoundRobin: four routers that share hit as often as one, over real
// sockets. The fleets run at the same time, so that a machine that is busy slows all of
// them down; times are compared in [TestReplicasInVirtualTime].
func TestRD10ReplicasBehindRoundRobin(t *testing.T) {
	t.Parallel()
	const documents, asked, rate, speed = 60, 300, 25, 10
	server := redistest.Start(t)
	fleets := []struct {
		name      string
		routers   int
		configure func(*config.Config)
		outcome
	}{
		{name: "one router", routers: 1},
		{name: "four that share", routers: replicas, configure: over(server)},
		{name: "four without Redis", routers: replicas},
	}
	doors := make([][]*door, len(fleets))
	for i, f := range fleets {
		behind := doubles(t, 4, engineOf(speed))
		for range f.routers {
			doors[i] = append(doors[i], open(t, behind, f.configure))
		}
	}
	awaitShared(t, doors[1]...)
	var playing sync.WaitGroup
	for i := range fleets {
		playing.Go(func() { fleets[i].outcome = play(t, doors[i], documents, asked, rate) })
	}
	playing.Wait()
	for _, f := range fleets {
		t.Logf("%-18s hit rate %.1f %%, TTFT at P90 %v", f.name, 100*f.hitRate, (speed * f.p90).Round(time.Millisecond))
	}
	one, shared := fleets[0], fleets[1]
	t.Logf("TTFT at P90, four that share beside one: × %.2f", float64(shared.p90)/float64(one.p90))
	lost := mostLost
	if !full() {
		lost = 3 * mostLost // a machine that is busy makes queues that are not the engines'
	}
	if shared.hitRate < one.hitRate-lost {
		t.Errorf("the hit rate falls by more than %.0f points", 100*lost)
	}
}

// engineOf is an engine whose cache holds a third of the documents.
func engineOf(speed float64) server.Config {
	return server.Config{
		Model: []string{"sim"}, Profile: "llama-8b-h100", Speed: speed, KVTokens: 80_000, BlockSize: 16,
		PromptTokensDetails: true, Engines: 1, Seed: 1,
	}
}

// TestReplicasInVirtualTime: the same with the times of the engine model, where no machine
// is in the way.
func TestReplicasInVirtualTime(t *testing.T) {
	t.Parallel()
	run := func(routers int, delay time.Duration) *replay.Result {
		f, err := replay.New(replay.Config{
			Backends: 7, Engine: enginesim.Config{Profile: replay.ReferenceProfile(1_600_000)}, Router: router.DefaultConfig(),
			Routers: routers, ShareDelay: delay, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		docs := workload.DefaultDocsConfig()
		docs.Duration = 5 * time.Minute
		r, err := f.Run(workload.NewDocs(docs, 1))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, shared, apart := run(1, 0), run(replicas, shareWithin), run(replicas, 0)
	for _, r := range []struct {
		name string
		*replay.Result
	}{{"one router", one}, {"four that share", shared}, {"four without Redis", apart}} {
		t.Logf("%-18s hit rate %.1f %%, TTFT at P90 %v", r.name, 100*r.HitRate(), r.Quantile(0.9).Round(time.Millisecond))
	}
	if shared.HitRate() < one.HitRate()-mostLost {
		t.Errorf("the hit rate falls by more than %.0f point", 100*mostLost)
	}
	if slower := float64(shared.Quantile(0.9)) / float64(one.Quantile(0.9)); slower > mostSlower {
		t.Errorf("TTFT at P90 is × %.2f, want at most × %.1f", slower, mostSlower)
	}
}
