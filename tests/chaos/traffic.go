package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// documents are what prompts begin with; they fit into the caches of the engines.
	documents = 48
	// most bounds the requests under way: beyond it the rate is not kept, which the report
	// says.
	most = 3000
)

// traffic sends requests at a rate, whatever becomes of those before.
type traffic struct {
	doors *doors
	seed  uint64
	texts []string

	mu      sync.Mutex
	tallies map[string]*tally // by dialect
	failed  []*result         // neither complete nor left
	skipped int               // for which there was no room

	sent     int
	under    chan struct{}
	requests sync.WaitGroup
}

// tally counts the requests of a dialect by how they ended.
type tally struct {
	Sent     int            `json:"sent"`
	Endings  map[ending]int `json:"endings"`
	Retried  int            `json:"complete_after_retries"`
	Switched int            `json:"asked_the_other_replica"`
	HTTP2    int            `json:"http2"`
	Cut      int            `json:"failed_with_their_engine"`
	Lost     int            `json:"lost"`
}

func newTraffic(d *doors, seed uint64) *traffic {
	t := &traffic{doors: d, seed: seed, tallies: make(map[string]*tally), under: make(chan struct{}, most)}
	rng := rand.New(rand.NewPCG(seed, 1000)) //nolint:gosec // repeatable on purpose
	for range documents {
		t.texts = append(t.texts, prose(rng, 800+rng.IntN(1600)))
	}
	for _, d := range dialects {
		t.tallies[d.name] = &tally{Endings: make(map[ending]int)}
	}
	return t
}

// plan is the n-th request. Equal seeds make equal plans.
func (t *traffic) plan(n int) *plan {
	rng := rand.New(rand.NewPCG(t.seed, 1<<32+uint64(n))) //nolint:gosec // repeatable on purpose
	p := &plan{id: fmt.Sprintf("chaos-%d-%d", t.seed, n), http2: rng.IntN(3) == 0, replica: rng.IntN(2)}
	for pick := rng.IntN(100); p.d == nil; {
		for _, d := range dialects {
			if pick -= d.share; pick < 0 {
				p.d = d
				break
			}
		}
	}
	p.prompt = t.texts[rng.IntN(len(t.texts))] + prose(rng, 200)
	if rng.IntN(10) == 0 {
		p.prompt = prose(rng, 800+rng.IntN(1600)) // that nobody has seen
	}
	p.tokens = 3 + rng.IntN(6)
	if rng.IntN(40) == 0 && p.d.stream {
		p.tokens = 100 + rng.IntN(150)
	}
	switch rng.IntN(25) {
	case 0:
		p.leaves = between(rng, time.Millisecond, 400*time.Millisecond)
	case 1:
		if p.d.stream {
			p.tokens, p.slow = 60, between(rng, 20*time.Millisecond, 300*time.Millisecond)
		}
	case 2:
		p.silent = p.d.rpc
	}
	return p
}

// run sends so many requests a second until ctx ends. Those under way go on.
func (t *traffic) run(ctx context.Context, rate int) {
	began, first := time.Now(), t.sent
	for {
		due := first + int(time.Since(began).Seconds()*float64(rate))
		for ; t.sent < due; t.sent++ {
			select {
			case t.under <- struct{}{}:
				t.send(t.plan(t.sent))
			default:
				t.mu.Lock()
				t.skipped++
				t.mu.Unlock()
			}
		}
		if !pause(ctx, 5*time.Millisecond) {
			return
		}
	}
}

// send carries out one plan in the background.
func (t *traffic) send(p *plan) {
	t.requests.Go(func() {
		defer func() { <-t.under }()
		r := t.doors.do(p)
		p.prompt = "" // of which there are many
		t.mu.Lock()
		defer t.mu.Unlock()
		one := t.tallies[p.d.name]
		one.Sent++
		one.Endings[r.ending]++
		if r.ending == complete && r.attempts > 1 {
			one.Retried++
		}
		if r.elsewhere {
			one.Switched++
		}
		if p.http2 && !p.d.rpc {
			one.HTTP2++
		}
		if r.ending != complete && r.ending != left || r.refusals+r.unreported > 0 {
			t.failed = append(t.failed, r)
		}
	})
}
