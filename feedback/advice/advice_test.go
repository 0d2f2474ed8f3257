//go:build !race

// Some hundred replays take the race detector minutes; the other tests have it look at the
// same code.

package advice

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/router"
)

// best is what a sweep of the real fleet finds.
type best struct{ hits, p90, unserved float64 }

// sweepAll tries every value of both settings on the real fleet, each with the other as
// advised. Of those that serve all requests, with a P90 of at most 1.5 times the lowest, it returns the best hit rate, and
// the lowest P90 within a point of it.
func (f fleet) sweepAll(t *testing.T, advised router.Config) (hits, p90 float64) {
	t.Helper()
	var all []best
	try := func(c router.Config) {
		r := f.play(t, c, nil)
		all = append(all, best{r.HitRate(), r.Quantile(.9).Seconds(), float64(r.Rejected) / float64(r.Requests)})
	}
	for length := router.MinPrefixLength; length <= 1<<17; length *= 2 {
		c := advised
		c.PrefixLength = length
		try(c)
	}
	for _, threshold := range []int{4, 8, 16, 32, 64, 128, 256, 512, 1024} {
		c := advised
		c.ConcurrencyThreshold = threshold
		try(c)
	}
	served := slices.MinFunc(all, func(a, b best) int { return cmp.Compare(a.unserved, b.unserved) }).unserved
	all = slices.DeleteFunc(all, func(b best) bool { return b.unserved > served+noneServed })
	lowest := slices.MinFunc(all, func(a, b best) int { return cmp.Compare(a.p90, b.p90) }).p90
	all = slices.DeleteFunc(all, func(b best) bool { return b.p90 > 1.5*lowest })
	for _, b := range all {
		hits = max(hits, b.hits)
	}
	all = slices.DeleteFunc(all, func(b best) bool { return b.hits < hits-0.01 })
	return hits, slices.MinFunc(all, func(a, b best) int { return cmp.Compare(a.p90, b.p90) }).p90
}

// Bad starts are recognised, good ones are left alone, and what is advised does as well on the
// real fleet as the best that there is: within a point of hit rate and 5 % of P90.
func TestAdviceIsAsGoodAsASweep(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred replays")
	}
	const set, fine = Set, Verdict("")
	for _, c := range []struct {
		name      string
		asked     func() (f fleet)
		change    func(*router.Config)
		prefix    Verdict // fine: keep or flat
		threshold Verdict
	}{
		{"docs", documents, func(*router.Config) {}, fine, fine},
		{"docs behind a head, prefix_length 1024", headedDocuments, func(c *router.Config) { c.PrefixLength = 1024 }, set, fine},
		{"docs, threshold 4", documents, func(c *router.Config) { c.ConcurrencyThreshold = 4 }, fine, fine},
		{"docs by hash, threshold 4", documents, byHash(4), fine, set},
		{"hot docs by hash, threshold 1024", hotDocuments, byHash(1024), fine, set},
		{"both wrong, and full backends reject", headedDocuments, func(c *router.Config) {
			c.OnSaturation, c.ConcurrencyThreshold, c.PrefixLength = router.Reject, 4, 1024
		}, set, set},
		{"chat", conversations, func(*router.Config) {}, fine, fine},
		{"chat behind a head, prefix_length 1024", headedConversations, func(c *router.Config) { c.PrefixLength = 1024 }, set, fine},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := c.asked()
			f.config = router.DefaultConfig()
			c.change(&f.config)
			a := f.advice(t)
			if a.TooLittle != "" {
				t.Fatal(a.TooLittle)
			}
			for knob, want := range map[Knob]Verdict{PrefixLength: c.prefix, ConcurrencyThreshold: c.threshold} {
				if got := a.curveOf(knob).Verdict; got != want && (want != fine || got == Set || got == Unsure) {
					t.Errorf("%s: %q, want %q", knob, got, want)
				}
			}
			lower := a.Advised.ConcurrencyThreshold < f.config.ConcurrencyThreshold
			if got := strings.Contains(strings.Join(a.Cautions, "\n"), "A lower concurrency_threshold"); got != lower {
				t.Errorf("%d instead of %d, and a word of caution: %v", a.Advised.ConcurrencyThreshold, f.config.ConcurrencyThreshold, got)
			}
			hits, p90 := f.sweepAll(t, a.Advised)
			now, then := f.play(t, f.config, nil), f.play(t, a.Advised, nil)
			t.Logf("hit rate %.2f %% and P90 %v; advised %.2f %% and %v; best %.2f %% and %.3fs",
				100*now.HitRate(), now.Quantile(.9), 100*then.HitRate(), then.Quantile(.9), 100*hits, p90)
			if then.HitRate() < hits-0.01 || then.Quantile(.9).Seconds() > 1.05*p90 {
				t.Errorf("what is advised hits %.2f %% with a P90 of %v; the best are %.2f %% and %.3fs",
					100*then.HitRate(), then.Quantile(.9), 100*hits, p90)
			}
		})
	}
}

func documents() fleet { return fleet{asked: docs(0.6, 6), backends: 4, kvTokens: 200_000} }

func hotDocuments() fleet { return fleet{asked: essays, backends: 4, kvTokens: 200_000} }

func headedDocuments() fleet {
	return fleet{asked: withHead(docs(0.6, 6), 512), backends: 4, kvTokens: 200_000}
}

func conversations() fleet { return fleet{asked: chat, backends: 4, kvTokens: 200_000} }

func headedConversations() fleet {
	return fleet{asked: withHead(chat, 512), backends: 4, kvTokens: 200_000}
}

func byHash(threshold int) func(*router.Config) {
	return func(c *router.Config) { c.Strategy, c.ConcurrencyThreshold = router.PrefixHash, threshold }
}
