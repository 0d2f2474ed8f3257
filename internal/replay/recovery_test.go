package replay

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// faulty is what a fleet looks like when a fault is about to happen.
type faulty struct {
	fleet  *Fleet
	victim *node
	asked  int   // requests before the fault
	others []int // entries of the other backends
	at     time.Duration
}

// ruin lets 30 documents be asked for in random order, one request after the other, then
// something happen to the backend that holds most of them, then each of its documents be
// asked for once more.
func ruin(t *testing.T, c Config, kind FaultKind, gap time.Duration) (*faulty, *Result) {
	t.Helper()
	const docs, rounds = 30, 4
	rng := rand.New(rand.NewPCG(c.Seed, 99))
	s := &script{gap: gap}
	for n := range docs * rounds {
		doc := n % docs
		if n >= docs {
			doc = rng.IntN(docs)
		}
		s.asks = append(s.asks, docAsk(doc, n))
	}
	x := &faulty{fleet: mustNew(t, c), asked: len(s.asks)}
	s.asks = append(s.asks, workload.Request{}) // replaced when the time has come
	s.before = func(i int, at time.Duration) {
		if i != x.asked || x.victim != nil {
			return
		}
		held := make(map[int][]int) // documents by backend: where they were last sent
		last := make(map[int]int)
		for n, sample := range x.fleet.result.Samples {
			last[s.asks[n].Session] = sample.Backend
		}
		for doc := range docs {
			held[last[doc]] = append(held[last[doc]], doc)
		}
		most := 0
		for number := range x.fleet.nodes {
			if len(held[number]) > len(held[most]) {
				most = number
			}
		}
		x.victim, x.at = x.fleet.nodes[most], at
		for _, n := range x.fleet.nodes {
			x.others = append(x.others, x.fleet.index.Stats(n.holder).Blocks)
		}
		if err := x.fleet.fault(at, Fault{Backend: most, Kind: kind}); err != nil {
			t.Fatal(err)
		}
		s.asks = s.asks[:x.asked]
		for j, k := range rng.Perm(len(held[most])) {
			s.asks = append(s.asks, docAsk(held[most][k], x.asked+j))
		}
	}
	r := mustRun(t, x.fleet, s)
	return x, r
}

func TestRecoveryAfterLoss(t *testing.T) {
	histogram := make(map[int]int)
	for seed := range uint64(24) {
		c := smallConfig(seed)
		x, r := ruin(t, c, LoseCache, 500*time.Millisecond)
		recovery := r.Recoveries[0]
		histogram[len(recovery.Answers)]++
		if recovery.Gone == 0 || !recovery.Healed || len(recovery.Answers) > 3 {
			t.Errorf("seed %d: %d entries gone, healed %v after answers %v", seed, recovery.Gone, recovery.Healed, recovery.Answers)
		}
		for i, n := range x.fleet.nodes {
			if blocks := x.fleet.index.Stats(n.holder).Blocks; n != x.victim && blocks < x.others[i] {
				t.Errorf("seed %d: backend %d had %d entries and has %d", seed, i, x.others[i], blocks)
			}
		}
		for _, m := range r.Moves {
			if m.Backend != x.victim.number {
				t.Errorf("seed %d: the horizon of another backend moved: %+v", seed, m)
			}
		}
	}
	t.Logf("24 losses: answers that were predicted to hit until nothing untrue was left: %v", histogram)
}

func TestRecoveryAfterRestart(t *testing.T) {
	histogram := make(map[int]int)
	for seed := range uint64(24) {
		x, r := ruin(t, smallConfig(seed), Restart, 500*time.Millisecond)
		misrouted := 0
		for _, s := range r.Samples[x.asked:] {
			if s.Expected >= minWatched && s.Cached == 0 {
				misrouted++
			}
		}
		histogram[misrouted]++
		if misrouted > 2 {
			t.Errorf("seed %d: %d requests went where nothing was left of their prompt", seed, misrouted)
		}
		if !r.Recoveries[0].Healed {
			t.Errorf("seed %d: not healed: %+v", seed, r.Recoveries[0])
		}
	}
	t.Logf("24 restarts: misrouted requests: %v", histogram)
}
