package demo

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/router"
)

func TestMeasure(t *testing.T) {
	m := newMeasure(router.PrefixAware, []string{"a", "b", "c"}, 10)
	for i := range 100 {
		a := answer{backend: "a", reason: "longest_match", ttft: time.Duration(i+1) * time.Millisecond, prompt: 200, cached: 150}
		if i < 20 {
			a.backend, a.reason = "b", "overflow_holder"
		}
		m.add(a, nil)
	}
	broken := errors.New("broken")
	m.add(answer{}, broken)
	m.add(answer{}, errors.New("broken again"))
	got := m.sum()
	want := Result{
		Strategy: router.PrefixAware, Requests: 102, Errors: 2, HitRate: 0.75, TTFTP50: 0.5, TTFTP90: 0.9, ShareMin: 0, ShareMax: 0.8,
		OverflowShare: 0.2, PromptTokens: 20_000, CachedTokens: 15_000, Err: broken,
	}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 0.002*math.Abs(x) })
	sameError := cmp.Comparer(func(x, y error) bool { return errors.Is(x, y) })
	if diff := cmp.Diff(want, got, near, sameError); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMeasureOfNothing(t *testing.T) {
	m := newMeasure(router.Random, []string{"a"}, 1)
	if diff := cmp.Diff(Result{Strategy: router.Random}, m.sum()); diff != "" {
		t.Error(diff)
	}
	for range 20 {
		if m.hopeless() {
			t.Fatal("given up too early")
		}
		m.add(answer{}, errors.New("refused"))
	}
	if !m.hopeless() {
		t.Error("20 failures in a row are not hopeless")
	}
	m.add(answer{backend: "a"}, nil)
	if m.hopeless() {
		t.Error("hopeless although one request went well")
	}
}

// Scripts rely on these names.
func TestResultJSON(t *testing.T) {
	data, err := json.Marshal(Result{Strategy: router.Random, Requests: 3, Err: errors.New("x"), PromptTokens: 1, CachedTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"strategy":"RANDOM","requests":3,"errors":0,"hit_rate":0,"ttft_p50_s":0,"ttft_p90_s":0,` +
		`"share_min":0,"share_max":0,"overflow_share":0}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}
