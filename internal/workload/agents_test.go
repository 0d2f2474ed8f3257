package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
)

func agents(t *testing.T, cfg workload.AgentsConfig) workload.Text {
	t.Helper()
	text, err := workload.Agents(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := text.Validate(); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAgentsRepeatBySeed(t *testing.T) {
	cfg := workload.AgentsConfig{Seed: 7, Requests: 60, Applications: 3}
	first := agents(t, cfg)
	if diff := cmp.Diff(first, agents(t, cfg)); diff != "" {
		t.Errorf("equal seeds differ:\n%s", diff)
	}
	cfg.Seed++
	if cmp.Equal(first.Sessions[0], agents(t, cfg).Sessions[0]) {
		t.Error("different seeds give the same first session")
	}
}

func TestAgentsCountRequests(t *testing.T) {
	for _, n := range []int{1, 2, 5, 333} {
		text := agents(t, workload.AgentsConfig{Requests: n, Applications: 8})
		if got := text.Requests(); got != n {
			t.Errorf("%d requests, want %d", got, n)
		}
	}
}

func TestAgentsRefuseNonsense(t *testing.T) {
	for _, cfg := range []workload.AgentsConfig{{Requests: 0, Applications: 1}, {Requests: 1}} {
		if _, err := workload.Agents(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// The shape that the comments promise, in an engine's own tokens.
func TestAgentsShape(t *testing.T) {
	const block = 16
	text := agents(t, workload.AgentsConfig{Seed: 1, Requests: 600, Applications: 8})
	cached := make(map[enginesim.BlockID]bool)
	var prompts, hits, longest int
	shortest := 1 << 30
	for _, s := range text.Sessions {
		var c workload.Conversation
		for i, turn := range s.Turns {
			var tokens []enginesim.Token
			for _, m := range c.Ask(turn) {
				tokens = enginesim.Tokenize(append(tokens, enginesim.Special(m.Role)), m.Content)
			}
			ids := enginesim.Chain(nil, 0, tokens, block)
			n := 0
			for n < len(ids) && cached[ids[n]] {
				n++
			}
			for _, id := range ids[n:] {
				cached[id] = true
			}
			prompts, hits = prompts+len(tokens), hits+n*block
			longest, shortest = max(longest, len(tokens)), min(shortest, len(tokens))
			c.Answer(enginesim.JoinOutput(enginesim.Output(uint64(i), turn.OutputTokens)))
		}
	}
	mean, reuse := prompts/text.Requests(), float64(hits)/float64(prompts)
	t.Logf("%d sessions, prompts %d..%d tokens, mean %d; one infinite cache hits %.1f %%, holds %d tokens",
		len(text.Sessions), shortest, longest, mean, 100*reuse, block*len(cached))
	if shortest < 1000 || longest > 20_000 || mean < 5000 || mean > 10_000 {
		t.Errorf("prompts of %d..%d tokens, mean %d: want about 2,000..16,000, mean about 8,000", shortest, longest, mean)
	}
	if reuse < 0.75 || reuse > 0.92 {
		t.Errorf("one infinite cache hits %.1f %%, want about 83 %%", 100*reuse)
	}
}
