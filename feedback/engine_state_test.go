package feedback_test

import (
	"testing"

	"github.com/warmroute/warmroute/feedback"
)

func state(second float64, change func(*feedback.EngineState)) feedback.EngineState {
	s := feedback.EngineState{At: at(second), Engine: "vllm", HasHits: true, Queries: 10_000, Hits: 9_000, Started: 500}
	change(&s)
	return s
}

func TestProgress(t *testing.T) {
	same := func(*feedback.EngineState) {}
	for _, tc := range []struct {
		name          string
		first, second func(*feedback.EngineState)
		want          feedback.Change
	}{
		{"nothing happened", same, same, feedback.Change{HasHits: true}},
		{"tokens were found", same, func(s *feedback.EngineState) { s.Queries, s.Hits = 12_000, 10_500 }, feedback.Change{HasHits: true, Queries: 2000, Hits: 1500}},
		// SC-05: both counters begin anew, or only one is seen to.
		{"both counters fell", same, func(s *feedback.EngineState) { s.Queries, s.Hits = 57, 0 }, feedback.Change{Restarted: true}},
		{"one counter fell", same, func(s *feedback.EngineState) { s.Queries, s.Hits = 10_057, 0 }, feedback.Change{Restarted: true}},
		{"the process is another", same, func(s *feedback.EngineState) { s.Started = 900 }, feedback.Change{Restarted: true}},
		{"the process start time is rounded", same, func(s *feedback.EngineState) { s.Started = 500.4 }, feedback.Change{HasHits: true}},
		{"the process start time is not said any more", same, func(s *feedback.EngineState) { s.Started = 0 }, feedback.Change{HasHits: true}},
		{"statistics were switched off", same, func(s *feedback.EngineState) { s.HasHits, s.Hits, s.Queries = false, 0, 0 }, feedback.Change{}},
		{
			"only prompt tokens are counted",
			func(s *feedback.EngineState) { s.HasHits, s.HasPromptTokens, s.PromptTokens = false, true, 500 },
			func(s *feedback.EngineState) { s.HasHits, s.HasPromptTokens, s.PromptTokens = false, true, 4 },
			feedback.Change{Restarted: true},
		},
		{"it fell asleep", func(s *feedback.EngineState) { s.HasSleep = true }, func(s *feedback.EngineState) { s.HasSleep, s.Asleep = true, true }, feedback.Change{FellAsleep: true, HasHits: true}},
		{"it still sleeps", func(s *feedback.EngineState) { s.HasSleep, s.Asleep = true, true }, func(s *feedback.EngineState) { s.HasSleep, s.Asleep = true, true }, feedback.Change{HasHits: true}},
	} {
		var p feedback.Progress
		if c := p.Next(state(1, tc.first)); c != (feedback.Change{}) {
			t.Errorf("%s: the first look says %+v", tc.name, c)
		}
		if c := p.Next(feedback.EngineState{At: at(2)}); c != (feedback.Change{}) {
			t.Errorf("%s: an unknown page says %+v", tc.name, c)
		}
		tc.want.Since = at(1)
		if got := p.Next(state(3, tc.second)); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestUnreported(t *testing.T) {
	var u feedback.Unreported
	scrape := func(second float64, hits float64) (float64, bool) {
		start, lost := u.Scraped(feedback.Change{Since: at(second - 5), HasHits: true, Hits: hits}, at(second))
		return start.Sub(at(0)).Seconds(), lost
	}
	u.Predict(40_000)
	if _, lost := scrape(10, 0); lost {
		t.Error("40,000 predicted tokens are too few to tell")
	}
	u.Predict(20_000)
	if start, lost := scrape(15, 29_000); !lost || start != 5 {
		t.Errorf("29,000 of 60,000 found: got %v, lost %v, want the window's start, 5", start, lost)
	}
	u.Predict(60_000)
	if _, lost := scrape(20, 31_000); lost {
		t.Error("31,000 of 60,000 found is no loss")
	}
	u.Predict(60_000)
	u.Scraped(feedback.Change{Restarted: true}, at(25))
	if _, lost := scrape(30, 0); lost {
		t.Error("a restart begins another window")
	}
}
