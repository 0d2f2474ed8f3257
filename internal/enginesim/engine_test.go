package enginesim

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	valid := Config{Profile: plainProfile()}
	for _, test := range []struct {
		field  string
		change func(*Config)
	}{
		{"profile.step_floor", func(c *Config) { c.Profile.StepFloor = 0 }},
		{"profile.kv_tokens", func(c *Config) { c.Profile.KVTokens = 0 }},
		{"profile.max_seqs", func(c *Config) { c.Profile.MaxSeqs = -1 }},
		{"profile.max_batched_tokens", func(c *Config) { c.Profile.MaxBatchedTokens = 0 }},
		{"profile.request_overhead", func(c *Config) { c.Profile.RequestOverhead = -1 }},
		{"prefill_per_token", func(c *Config) { c.Profile.PrefillPerToken = -1 }},
		{"block_size", func(c *Config) { c.BlockSize = -16 }},
		{"kv_tokens", func(c *Config) { c.KVTokens = 8 }},
		{"kv_tokens", func(c *Config) { c.KVTokens, c.BlockSize = 1<<30, 1 }},
		{"max_model_len", func(c *Config) { c.MaxModelLen = -1 }},
		{"max_batched_tokens", func(c *Config) { c.MaxBatchedTokens = -1 }},
		{"max_seqs", func(c *Config) { c.MaxSeqs = -1 }},
		{"jitter", func(c *Config) { c.Jitter = 2 }},
	} {
		cfg := valid
		test.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), test.field+":") && !strings.Contains(err.Error(), test.field) {
			t.Errorf("New with bad %s: error %v does not name it", test.field, err)
		}
	}
	if _, err := New(valid); err != nil {
		t.Errorf("New(valid) = %v", err)
	}
}

func TestSubmitErrors(t *testing.T) {
	e, err := New(Config{Profile: plainProfile()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(0, Request{PromptTokens: 65}); !errors.Is(err, ErrTooLong) {
		t.Errorf("Submit of 65 tokens into 64 = %v, want ErrTooLong", err)
	}
	if _, err := e.Submit(0, Request{PromptTokens: 1, OutputTokens: -1}); err == nil {
		t.Error("Submit with negative output succeeded")
	}
	if _, err := e.Submit(0, Request{PromptTokens: 1, Finish: FinishAbort}); err == nil {
		t.Error("Submit that plans an abort succeeded")
	}
}

// TestTimesOfOneRequest follows one request on a real profile: overhead, prefill
// with the step's floor, then decode steps with a growing context.
func TestTimesOfOneRequest(t *testing.T) {
	p, err := ProfileByName("llama-70b-8xh100")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Submit(time.Second, Request{PromptTokens: 4096, OutputTokens: 3})
	if err != nil {
		t.Fatal(err)
	}
	drain(e)
	got := s.Progress()
	wantFirst := time.Second + p.RequestOverhead + p.StepFloor + p.PrefillTime(4096, 0)
	if got.FirstToken != wantFirst {
		t.Errorf("first token at %s, want %s", got.FirstToken, wantFirst)
	}
	wantEnd := wantFirst + p.DecodeTime(1, 4097) + p.DecodeTime(1, 4098)
	if diff := (got.Finished - wantEnd).Abs(); diff > time.Microsecond {
		t.Errorf("finished at %s, want %s", got.Finished, wantEnd)
	}
	if got.Admitted != time.Second+p.RequestOverhead || got.Ready != got.Admitted {
		t.Errorf("ready at %s, admitted at %s, want both at %s", got.Ready, got.Admitted, time.Second+p.RequestOverhead)
	}
	st := e.Stats()
	if st.TimeToFirstToken.Count != 1 || st.InterTokenLatency.Count != 2 || st.EndToEnd.Count != 1 || st.IterationTokens.Count != 3 {
		t.Errorf("histogram counts %d %d %d %d, want 1 2 1 3", st.TimeToFirstToken.Count, st.InterTokenLatency.Count,
			st.EndToEnd.Count, st.IterationTokens.Count)
	}
	if got, want := st.TimeToFirstToken.Sum, (wantFirst - time.Second).Seconds(); got != want {
		t.Errorf("TTFT sum %g, want %g", got, want)
	}
}

func drain(e *Engine) (steps int) {
	for at, ok := e.NextStep(); ok; at, ok = e.NextStep() {
		e.Step(at)
		steps++
	}
	return steps
}

// TestStepBetweenMoments checks that calls between the moments of NextStep change
// nothing.
func TestStepBetweenMoments(t *testing.T) {
	e, err := New(Config{Profile: plainProfile()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Submit(0, Request{PromptTokens: 8, OutputTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.Step(0)
	for ms := range 18 {
		if events := e.Step(time.Duration(ms) * time.Millisecond); len(events) != 0 {
			t.Fatalf("events %v at %d ms, want none before 18 ms", events, ms)
		}
	}
	e.Step(18 * time.Millisecond)
	if got := s.Progress().Finished; got != 18*time.Millisecond {
		t.Errorf("finished at %s, want 18ms", got)
	}
}

// TestRecountLookups emulates the metrics of vLLM before July 2026, which count a
// lookup in each step that fails to admit.
func TestRecountLookups(t *testing.T) {
	for _, recount := range []bool{false, true} {
		e, err := New(Config{Profile: plainProfile(), BlockSize: 4, KVTokens: 16, RecountLookups: recount})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := e.Submit(0, Request{PromptTokens: 12, OutputTokens: 4}); err != nil {
				t.Fatal(err)
			}
		}
		drain(e)
		// The second request fails to be admitted while the first runs: in its
		// prefill and its first three decode steps.
		want := int64(24)
		if recount {
			want += 4 * 12
		}
		if got := e.Counters().PrefixQueries; got != want {
			t.Errorf("recount = %t: %d tokens queried, want %d", recount, got, want)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	h := newHistogram([]float64{1, 2, 5})
	for _, v := range []float64{0.5, 1, 1.5, 5, 9} {
		h.observe(v)
	}
	if want := []uint64{2, 1, 1, 1}; h.Counts[0] != want[0] || h.Counts[1] != want[1] || h.Counts[2] != want[2] || h.Counts[3] != want[3] {
		t.Errorf("counts %v, want %v", h.Counts, want)
	}
	if h.Sum != 17 || h.Count != 5 {
		t.Errorf("sum %g count %d, want 17 and 5", h.Sum, h.Count)
	}
}
