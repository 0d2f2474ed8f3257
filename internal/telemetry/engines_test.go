package telemetry

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/router"
)

// What engines say of themselves is shown while it is known, and absent is not 0.
func TestSC01WhatEnginesSay(t *testing.T) {
	g := newRig(t, slog.LevelError)
	now := time.Now()
	g.backends.now = func() time.Time { return now }
	status := map[string]scrape.Status{
		"b1:8000": {Last: now.Add(-7 * time.Second), Took: 3 * time.Millisecond, Good: 4, Bad: 1},
		"b2:8000": {Bad: 3, Err: errors.New("status 404")},
	}
	b := g.pool.Backends()
	state := feedback.EngineState{
		At: now.Add(-7 * time.Second), Engine: "vllm", HasRunning: true, Waiting: 2, HasWaiting: true, CapacityTokens: 400_000, BlockTokens: 16,
	}
	g.router.Scraped(g.pool, b[0], state)
	names := func(backend string) string {
		var all []string
		for name := range g.series(t) {
			if strings.Contains(name, backend) && (strings.Contains(name, "_scrape") || strings.Contains(name, "_engine_")) {
				name, _, _ = strings.Cut(strings.TrimPrefix(name, "warmroute_backend_"), "{")
				all = append(all, name)
			}
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	if got := names("b1:8000"); got != "engine_kv_block_tokens engine_kv_capacity_tokens" {
		t.Errorf("before anything is known of scrapes: %s", got)
	}
	g.ReadScrapes(func(b *backends.Backend) (scrape.Status, bool) {
		s, ok := status[b.ID]
		return s, ok
	})
	for backend, want := range map[string]string{
		"b1:8000": "engine_kv_block_tokens engine_kv_capacity_tokens engine_running_requests engine_waiting_requests " +
			"scrape_age_seconds scrape_duration_seconds scrape_errors_total scrape_up scrapes_total",
		"b2:8000": "scrape_errors_total scrape_up scrapes_total",
		"b3:8000": "",
	} {
		if got := names(backend); got != want {
			t.Errorf("series of %s\n%s\nwant\n%s", backend, got, want)
		}
	}
	g.expect(t, map[string]string{
		`warmroute_backend_engine_running_requests{backend="b1:8000",pool="chat"}`:   "0",
		`warmroute_backend_engine_waiting_requests{backend="b1:8000",pool="chat"}`:   "2",
		`warmroute_backend_engine_kv_capacity_tokens{backend="b1:8000",pool="chat"}`: "400000",
		`warmroute_backend_engine_kv_block_tokens{backend="b1:8000",pool="chat"}`:    "16",
		`warmroute_backend_scrape_age_seconds{backend="b1:8000",pool="chat"}`:        "7",
		`warmroute_backend_scrape_duration_seconds{backend="b1:8000",pool="chat"}`:   "0.003",
		`warmroute_backend_scrapes_total{backend="b1:8000",pool="chat"}`:             "5",
		`warmroute_backend_scrape_errors_total{backend="b1:8000",pool="chat"}`:       "1",
		`warmroute_backend_scrape_up{backend="b1:8000",pool="chat"}`:                 "1",
		`warmroute_backend_scrape_up{backend="b2:8000",pool="chat"}`:                 "0",
		`warmroute_backend_state{backend="b1:8000",pool="chat",state="asleep"}`:      "0",
		`warmroute_backend_prefill_tokens_per_second{backend="b1:8000",pool="chat"}`: "2000",
		`warmroute_backend_silent{backend="b1:8000",pool="chat"}`:                    "0",
		`warmroute_bytes_per_token{pool="chat"}`:                                     "4",
	})

	// What it said of a moment goes when it cannot be asked again; what it is made of stays.
	failed := status["b1:8000"]
	failed.Err = errors.New("refused")
	status["b1:8000"] = failed
	if got := names("b1:8000"); strings.Contains(got, "engine_running") || !strings.Contains(got, "engine_kv_capacity_tokens") {
		t.Errorf("series while it does not answer: %s", got)
	}

	// Sleep is a state, and voids what was cached.
	state.At, state.HasSleep, state.Asleep = now.Add(-2*time.Second), true, true
	g.router.Scraped(g.pool, b[0], state)
	g.expect(t, map[string]string{
		`warmroute_backend_state{backend="b1:8000",pool="chat",state="asleep"}`:  "1",
		`warmroute_backend_state{backend="b1:8000",pool="chat",state="up"}`:      "0",
		`warmroute_backend_horizon_age_seconds{backend="b1:8000",pool="chat"}`:   "2",
		`warmroute_horizon_moves_total{cause="sleep",pool="chat"}`:               "1",
		`warmroute_backend_scrape_errors_total{backend="b2:8000",pool="chat"}`:   "3",
		`warmroute_backend_scrapes_total{backend="b2:8000",pool="chat"}`:         "3",
		`warmroute_backend_concurrency_limit{backend="b1:8000",pool="chat"}`:     "128",
		`warmroute_backend_index_capacity_blocks{backend="b1:8000",pool="chat"}`: g.value(t, `warmroute_backend_index_capacity_blocks{backend="b1:8000",pool="chat"}`),
	})
	if g.series(t)[`warmroute_backend_horizon_age_seconds{backend="b2:8000",pool="chat"}`] {
		t.Error("a horizon that never moved has an age")
	}
}

func TestPredictionsAreCompared(t *testing.T) {
	g := newRig(t, slog.LevelError)
	at := time.Unix(1000, 0)
	d, err := g.router.Route(&router.Request{Now: at, Pool: g.pool, Model: "m", Pin: "b1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.router.Complete(d, feedback.Outcome{Now: at})
	told := g.Hooks().Accounted
	for _, a := range []feedback.Account{
		{Prompt: 1000, Captured: 800, Predicted: 800, Delivered: 790, Reported: true},
		{Prompt: 1000, Captured: 800, Predicted: 400, Delivered: 0, Reported: true},
		{Prompt: 1000, Delivered: 600, Reported: true}, // more than was known
		{Prompt: 1000, Reported: true},                 // a miss that was foreseen is no error
		{Prompt: 1000, Captured: 400, Predicted: 400},  // not reported: nothing to compare
		{Prompt: 0, Predicted: 10, Reported: true},     // no prompt at all
	} {
		told(d, a)
	}
	g.expect(t, map[string]string{
		`warmroute_prediction_error_ratio_count{pool="chat"}`:                            "3",
		`warmroute_prediction_error_ratio_bucket{pool="chat",le="-0.25"}`:                "1",
		`warmroute_prediction_error_ratio_bucket{pool="chat",le="-0.02"}`:                "1",
		`warmroute_prediction_error_ratio_bucket{pool="chat",le="0.02"}`:                 "2",
		`warmroute_prediction_error_ratio_bucket{pool="chat",le="0.75"}`:                 "3",
		`warmroute_backend_calibration_ratio{backend="b1:8000",pool="chat"}`:             "0.8",
		`warmroute_backend_delivered_cached_tokens_total{backend="b1:8000",pool="chat"}`: "1390",
	})
	if g.series(t)[`warmroute_backend_calibration_ratio{backend="b2:8000",pool="chat"}`] {
		t.Error("a backend without a match has a calibration")
	}
}

func TestCalibrationForgets(t *testing.T) {
	var c calibration
	if _, ok := c.ratio(); ok {
		t.Error("a ratio of nothing")
	}
	for range 100 {
		c.observe(10_000, 0)
	}
	for range 100 {
		c.observe(10_000, 10_000)
	}
	if ratio, _ := c.ratio(); ratio < 0.98 {
		t.Errorf("the ratio is %v after a million tokens that came true", ratio)
	}
	c.observe(0, 5)
	c.observe(10, -5)
}
