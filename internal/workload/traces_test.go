package workload_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/warmroute/warmroute/internal/workload"
)

// openTrace reads one of the public traces, which WARMROUTE_TRACES names the directory of.
func openTrace(t *testing.T, kind, name string) *workload.Workload {
	t.Helper()
	dir := os.Getenv("WARMROUTE_TRACES")
	if dir == "" {
		t.Skip("WARMROUTE_TRACES is not set")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	w, err := workload.Open(kind, f, workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// infinite counts the prompt tokens of requests, and those of them that one cache in which
// everything stays would have: whole blocks of so many tokens.
func infinite(requests []workload.Request, block int) (tokens, cached int) {
	seen := make(map[uint64]bool)
	for _, r := range requests {
		chain, filled, hit := uint64(1), 0, true
		for _, s := range r.Prompt {
			tokens += s.Tokens
			for at := 0; at < s.Tokens; {
				n := min(block-filled, s.Tokens-at)
				chain = scramble(chain ^ scramble(s.ID) ^ scramble(uint64(at)<<32|uint64(n)))
				at += n
				if filled += n; filled < block {
					continue
				}
				filled = 0
				if hit = hit && seen[chain]; hit {
					cached += block
				}
				seen[chain] = true
			}
		}
	}
	return tokens, cached
}

func scramble(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7FB5D329728EA185
	x = (x ^ x>>27) * 0x81DADEF4BC2DD44D
	return x ^ x>>33
}

// What the public traces hold. Cached tokens are counted by the traces' own block ids, with
// the heads of Weka's sessions in common.
func TestPublicTraces(t *testing.T) {
	for _, c := range []struct {
		kind, name     string
		sessions       int // 0: not a matter of sessions
		requests       int
		tokens, cached int
		block          int // tokens
	}{
		{workload.KindMooncake, "mooncake_conversation_full.jsonl.gz", 0, 12_031, 144_793_823, 54_063_104, 512},
		{workload.KindMooncake, "mooncake_synthetic_full.jsonl.gz", 0, 3993, 61_194_628, 39_802_880, 512},
		{workload.KindWeka, "weka_claude_code_sessions_max128k_251.jsonl.gz", 251, 9638, 634_584_034, 608_593_408, 64},
		{workload.KindAgentText, "lmcache_agent_trace_miniswe.jsonl.gz", 20, 402, 2_418_842, 0, 16},
		{workload.KindAgentText, "lmcache_agent_trace_magagent.jsonl.gz", 25, 746, 1_512_212, 0, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := play(t, openTrace(t, c.kind, c.name), 1, 0)
			if len(requests) != c.requests {
				t.Errorf("%d requests, want %d", len(requests), c.requests)
			}
			if n := len(bySession(requests)); c.sessions > 0 && n != c.sessions {
				t.Errorf("%d sessions, want %d", n, c.sessions)
			}
			tokens, cached := infinite(requests, c.block)
			t.Logf("%d prompt tokens, %.2f %% of which one infinite cache has", tokens, 100*float64(cached)/float64(tokens))
			if tokens != c.tokens || c.cached > 0 && cached != c.cached {
				t.Errorf("%d prompt tokens, %d in one infinite cache, want %d and %d", tokens, cached, c.tokens, c.cached)
			}
		})
	}
}

// All sessions of Weka's trace, which is 6 billion tokens, fit into a few megabytes.
func TestWekaStaysSmall(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := openTrace(t, workload.KindWeka, "weka_claude_code_sessions_all710.jsonl.gz")
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int(after.HeapAlloc) - int(before.HeapAlloc)
	t.Logf("%d requests, %d bytes", w.Requests, held)
	if w.Requests != 48_658 || held > 10<<20 {
		t.Errorf("%d requests, want 48658, in %d bytes, want 10 MiB at most", w.Requests, held)
	}
	if n := len(bySession(play(t, w, 1, 0))); n != 710 {
		t.Errorf("%d sessions, want 710", n)
	}
}
