package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/internal/memhttp"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// TestAgreesWithReplay plays conversations in replay, and then over HTTP through a gateway
// to two servers, each request to the engine that replay took. Both sides see the same hits
// and the same times, to the nanosecond, while memory runs out: requests wait, blocks are
// evicted, sequences are preempted. As a turn follows the end of the one before, those
// ends agree too.
func TestAgreesWithReplay(t *testing.T) {
	for _, strategy := range []string{router.Random, router.PrefixAware} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agree(t, strategy) })
		})
	}
}

func agree(t *testing.T, strategy string) {
	t.Helper()
	const engines, kvTokens = 2, 1600
	profile, err := enginesim.ProfileByName("llama-8b-l40s")
	if err != nil {
		t.Fatal(err)
	}
	talks := makeTalks(8, 5)
	c := replay.Config{
		Backends: engines, Engine: enginesim.Config{Profile: profile, KVTokens: kvTokens},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
	}
	c.Router.Strategy = strategy
	replayed, result := replayTalks(t, c, talks)

	cfg := server.DefaultConfig()
	cfg.Profile, cfg.KVTokens = profile.Name, kvTokens
	p := newPlayer(t, cfg, engines)
	served := make([][]seen, len(talks))
	var all sync.WaitGroup
	for i := range talks {
		all.Go(func() { served[i] = p.play(&talks[i], replayed[i]) })
	}
	all.Wait()

	if diff := cmp.Diff(replayed, served, cmpopts.IgnoreUnexported(seen{})); diff != "" {
		t.Errorf("seen in replay (-) and over HTTP (+):\n%s", diff)
	}
	for i := range talks {
		for k, one := range served[i] {
			if off := replayed[i][k].predicted - one.predicted; max(off, -off) > indexBlockTokens {
				t.Errorf("turn %d of conversation %d: the router expected %d cached tokens in replay, %d over HTTP",
					k, i, replayed[i][k].predicted, one.predicted)
			}
		}
	}
	evicted, preemptions := 0, 0
	for _, backend := range p.backends {
		engine := &sim{t: t, url: "http://" + backend, client: p.client}
		evicted += int(engine.state("engines", 0, "evicted_blocks"))
		preemptions += int(engine.state("engines", 0, "preemptions"))
	}
	t.Logf("hit rate %.3f, TTFT %v to %v, %d blocks evicted, %d preemptions",
		result.HitRate(), result.Quantile(0), result.Quantile(1), evicted, preemptions)
	if preemptions != result.Preemptions {
		t.Errorf("%d preemptions, %d in replay", preemptions, result.Preemptions)
	}
	if evicted < 100 || preemptions == 0 || result.Quantile(.9) < time.Second {
		t.Error("memory does not run out: this shows too little")
	}
}

// indexBlockTokens is a block of the index in tokens. The key stream of HTTP has a few
// bytes of framing more, so a match may be a block shorter.
const indexBlockTokens = 256 / 4

// seen is what became of one request.
type seen struct {
	At             time.Duration // sent, since the beginning
	Backend        int
	Prompt, Cached int // tokens
	TTFT           time.Duration

	predicted int // cached tokens that the router expected
}

// replayTalks returns what became of every turn of every conversation in replay.
func replayTalks(t *testing.T, c replay.Config, talks []talk) ([][]seen, *replay.Result) {
	t.Helper()
	fleet, err := replay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	source := &talkSource{talks: talks, sent: make([][]time.Duration, len(talks))}
	result, err := fleet.Run(source)
	if err != nil {
		t.Fatal(err)
	}
	byTime := make(map[time.Duration]seen)
	for _, s := range result.Samples {
		byTime[s.At] = seen{s.At, s.Backend, s.Prompt, s.Cached, s.TTFT, s.Predicted}
	}
	all := make([][]seen, len(talks))
	for i, times := range source.sent {
		for _, at := range times {
			all[i] = append(all[i], byTime[at])
		}
	}
	return all, result
}

// player holds conversations over HTTP: through a gateway, with servers in memory.
type player struct {
	*sim

	start    time.Time
	backends []string // ids by number
}

func newPlayer(t *testing.T, cfg server.Config, engines int) *player {
	t.Helper()
	network := memhttp.NewNetwork()
	p := &player{start: time.Now()}
	var urls []string
	for i := range engines {
		p.backends = append(p.backends, fmt.Sprintf("engine-%d:8000", i))
		web, err := network.Serve(p.backends[i], running(t, cfg))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = web.Close() })
		urls = append(urls, web.URL())
	}
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	c.Pools[0].Models = []config.Model{{Name: cfg.Model[0]}}
	c.AllowBackendPin = true
	p.sim = &sim{t: t, url: runGateway(t, c, network), client: network.Client()}
	return p
}

// runGateway runs a gateway on a network until the test ends and returns its base URL.
func runGateway(t *testing.T, c *config.Config, network *memhttp.Network) string {
	t.Helper()
	data, err := network.Listen("router:8080")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := network.Listen("router:9090")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{
		Config: c, Seed: 1, Listener: data, AdminListener: admin, DialContext: network.DialContext,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + g.Addr().String()
}

// play holds one conversation, each turn with the backend that replay took for it.
func (p *player) play(talk *talk, as []seen) []seen {
	var all []seen
	prompt := tokensOf(talk.head)
	for i, turn := range talk.turns {
		time.Sleep(turn.pause)
		prompt = append(prompt, tokensOf(turn.question)...)
		one, answer, err := p.ask(prompt, turn.answer.Tokens, p.backends[as[i].Backend])
		if err != nil {
			p.t.Errorf("turn %d of %+v: %v", i, talk.head, err)
			break
		}
		all = append(all, one)
		prompt = enginesim.Tokenize(prompt, answer)
	}
	return all
}

// ask sends a prompt as token ids, and returns what became of it and the answer.
func (p *player) ask(prompt []enginesim.Token, output int, backend string) (one seen, answer string, err error) {
	one.At = time.Since(p.start)
	resp, err := p.send(p.t.Context(), "/v1/completions", object{
		"model": "sim", "prompt": prompt, "max_tokens": output,
		"stream": true, "stream_options": object{"include_usage": true},
	}, "X-Warmroute-Backend", backend)
	if err != nil {
		return one, "", err
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		return one, "", err
	}
	one.TTFT = time.Since(p.start) - one.At
	one.Backend = slices.Index(p.backends, resp.Header.Get("X-Warmroute-Backend"))
	one.predicted, _ = strconv.Atoi(resp.Header.Get("X-Warmroute-Predicted-Cached-Tokens"))
	events, err := readEvents(p.t, io.MultiReader(bytes.NewReader(first), resp.Body))
	var text strings.Builder
	for _, ev := range events {
		if piece, ok := at(ev.data, "choices", 0, "text").(string); ok {
			text.WriteString(piece)
		}
		if tokens, ok := at(ev.data, "usage", "prompt_tokens").(float64); ok {
			one.Prompt = int(tokens)
			cached, _ := at(ev.data, "usage", "prompt_tokens_details", "cached_tokens").(float64)
			one.Cached = int(cached)
		}
	}
	return one, text.String(), err
}
