package replay

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// script asks one request after the other, each gap after the end of the one before.
type script struct {
	asks   []workload.Request
	gap    time.Duration
	before func(i int, at time.Duration) // called when request i is made
	next   int
}

// Next implements Source.
func (s *script) Next() (workload.Request, bool) {
	if s.next > 0 {
		return workload.Request{}, false
	}
	return s.make(0)
}

// Ended implements Source.
func (s *script) Ended(_ *workload.Request, at time.Duration, _ bool) (workload.Request, bool) {
	return s.make(at)
}

func (s *script) make(at time.Duration) (workload.Request, bool) {
	if s.next == len(s.asks) {
		return workload.Request{}, false
	}
	if s.before != nil {
		s.before(s.next, at)
	}
	if s.next == len(s.asks) { // the callback cut it short
		return workload.Request{}, false
	}
	r := s.asks[s.next]
	r.At = at + s.gap
	s.next++
	return r, true
}

// docAsk is question n about a document of 8,000 tokens.
func docAsk(doc, n int) workload.Request {
	return workload.Request{
		Prompt:       []workload.Segment{{ID: 1000 + uint64(doc), Tokens: 8000}, {ID: 1 << 40 * uint64(n+1), Tokens: 100}},
		OutputTokens: 20, Session: doc,
	}
}

// smallConfig is three engines that hold 50 documents each, without noise.
func smallConfig(seed uint64) Config {
	return Config{
		Backends: 3, Engine: enginesim.Config{Profile: ReferenceProfile(400_000)},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1,
		Audit: true, Seed: seed,
	}
}

func mustNew(t *testing.T, c Config) *Fleet {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustRun(t *testing.T, f *Fleet, s workload.Source) *Result {
	t.Helper()
	r, err := f.Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// play is one run of several that go side by side.
type play struct {
	name   string
	config Config
	source func() workload.Source
	result *Result
}

// playAll runs as many at a time as there are cores.
func playAll(t *testing.T, plays ...*play) {
	t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range plays {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f, err := New(p.config)
			if err == nil {
				p.result, err = f.Run(p.source())
			}
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// until is a source that asks nothing from a moment on.
type until struct {
	workload.Source
	end time.Duration
}

// Next implements Source.
func (u until) Next() (workload.Request, bool) {
	r, ok := u.Source.Next()
	return r, ok && r.At < u.end
}
