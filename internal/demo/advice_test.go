package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/feedback/advice"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// What a router remembers is the same in simulated time, but for the times.
func TestSimulated(t *testing.T) {
	clock := recent.New(recent.MinBytes)
	add := func(after time.Duration, keys ...kvindex.Key) {
		clock.Add(&recent.Request{Pool: "p", Keys: keys, BlockBytes: 256, StreamBytes: 256 * len(keys), Facts: recent.Facts{
			Arrived: time.Unix(1000, 0).Add(after), Duration: 300 * time.Millisecond, TTFT: 100 * time.Millisecond, PromptTokens: 64 * len(keys), CachedTokens: recent.Unknown, OutputTokens: 7,
		}})
	}
	add(0, 1, 2, 3)
	add(time.Second, 1, 2, 4, 5)
	add(2 * time.Second)
	everything := func(recent.Prompt) bool { return true }
	before := clock.Window("p", everything)
	after := simulated(before, "p", 20).Window("p", everything)
	for i, p := range after.Requests {
		was := before.Requests[i]
		if p.Arrived.Sub(after.Requests[0].Arrived) != 20*was.Arrived.Sub(before.Requests[0].Arrived) || p.TTFT != 2*time.Second || p.Duration != 6*time.Second {
			t.Errorf("request %d: %+v", i, p)
		}
		if diff := cmp.Diff(keysOf(before, &was), keysOf(after, &p)); diff != "" || p.StreamBytes != was.StreamBytes || p.PromptTokens != was.PromptTokens {
			t.Errorf("request %d: %s", i, diff)
		}
	}
	if len(after.Requests) != 3 {
		t.Errorf("%d requests", len(after.Requests))
	}
}

func TestPrintAdvice(t *testing.T) {
	store := recent.New(recent.MinBytes)
	for i := range 450 {
		keys := make([]kvindex.Key, 8)
		for j := range keys {
			keys[j] = kvindex.Key(1 + i%7 + 100*j)
		}
		store.Add(&recent.Request{Pool: "p", Keys: keys, BlockBytes: 256, StreamBytes: 8 * 256, Facts: recent.Facts{
			Arrived: time.Unix(1000, 0).Add(time.Duration(i) * time.Second), Duration: time.Second, TTFT: 50 * time.Millisecond, PromptTokens: 512, CachedTokens: 500, OutputTokens: 20,
		}})
	}
	pool := advice.Pool{Name: "p", Config: router.DefaultConfig(), Backends: 2, CapacityTokens: 100_000, Stated: true}
	for work, want := range map[int][]string{
		0:      {"Advice on X, from the 450 requests of its run", "\n  prefix_length         keep 1048576: ", "\n  concurrency_threshold keep 128: "},
		20_000: {"\n  none: ", "prove nothing"},
	} {
		var out strings.Builder
		if err := printAdvice(t.Context(), &out, &experience{"X", pool, advice.Recent(store, "p", work)}); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("no %q in\n%s", part, &out)
			}
		}
	}
}

func TestAdvisedOn(t *testing.T) {
	c := DefaultConfig()
	if got := c.advisedOn(); got != router.PrefixAware {
		t.Errorf("advice on %s", got)
	}
	c.Strategies = []string{router.Random, router.PrefixHash}
	if got := c.advisedOn(); got != router.PrefixHash {
		t.Errorf("advice on %s", got)
	}
}
