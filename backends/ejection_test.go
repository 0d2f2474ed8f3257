package backends_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
)

var start = time.Unix(1_700_000_000, 0)

func fail(r *backends.Registry, b *backends.Backend, now time.Time, times int) (ejected bool) {
	for range times {
		ejected = r.Failed(b, now)
	}
	return ejected
}

func TestEjection(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	if fail(r, b, start, 2) || b.State(start) != backends.Up {
		t.Fatal("two failures eject")
	}
	r.Succeeded(b, start)
	if fail(r, b, start, 2) {
		t.Fatal("a success does not end the row")
	}
	if !fail(r, b, start, 1) || b.State(start) != backends.Ejected {
		t.Fatal("three failures in a row do not eject")
	}
	if got, want := b.Retry(start), start.Add(10*time.Second); !got.Equal(want) {
		t.Errorf("Retry: got %v, want %v", got, want)
	}
	if got := b.State(start.Add(10 * time.Second)); got != backends.Up {
		t.Errorf("after the ejection: %v, want up", got)
	}
	// The next ejection is twice as long, up to the maximum, until it succeeds.
	now := start.Add(10 * time.Second)
	for i, want := range []time.Duration{20, 40, 80, 160, 300, 300} {
		if !fail(r, b, now, 3) {
			t.Fatalf("ejection %d: three failures do not eject", i+2)
		}
		if got := b.Retry(now).Sub(now); got != want*time.Second {
			t.Errorf("ejection %d: %v long, want %v", i+2, got, want*time.Second)
		}
		now = b.Retry(now)
	}
	r.Succeeded(b, now)
	fail(r, b, now, 3)
	if got := b.Retry(now).Sub(now); got != 10*time.Second {
		t.Errorf("first ejection after a success: %v, want 10s", got)
	}
}

// An engine that dies with several requests in it fails some and may still finish
// others: that is one ejection, and it ends with the first success after it.
func TestOneDeathIsOneEjection(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	sent, ejections := start.Add(-time.Second), 0
	for range 12 {
		if r.Failed(b, start) {
			ejections++
		}
		if r.Succeeded(b, sent) && ejections > 0 {
			t.Error("an answer to an earlier request ends the ejection")
		}
		for range 3 {
			if r.Failed(b, start) {
				ejections++
			}
		}
	}
	if ejections != 1 || b.State(start) != backends.Ejected {
		t.Errorf("%d ejections, state %v, want 1 and ejected", ejections, b.State(start))
	}

	// The time is up, but nothing was sent since: it has not proved itself yet.
	after := start.Add(11 * time.Second)
	if b.State(after) != backends.Up || r.Succeeded(b, sent) {
		t.Errorf("state %v, or an earlier request counts as its return", b.State(after))
	}
	if !r.Succeeded(b, after) {
		t.Error("the first success after an ejection is not its return")
	}
	if r.Succeeded(b, after) {
		t.Error("it returned twice")
	}
}

func TestEjectionsOfABackendThatIsDeadForLong(t *testing.T) {
	e := backends.DefaultEjection()
	e.Base, e.Max = time.Minute, time.Hour
	r, err := backends.NewRegistry(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Set([]backends.Spec{{URL: "http://b1:80", Rank: backends.NoRank}, {URL: "http://b2:80", Rank: backends.NoRank}}); err != nil {
		t.Fatal(err)
	}
	b, now := r.Find("b1:80"), start
	for i := range 100 {
		fail(r, b, now, 3)
		want := time.Hour
		if i < 6 {
			want = time.Minute << i
		}
		if got := b.Retry(now).Sub(now); got != want {
			t.Fatalf("ejection %d: %v long, want %v", i+1, got, want)
		}
		now = b.Retry(now)
	}
}

func TestEjectionTakesAtMostHalf(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80", "http://b3:80", "http://b4:80", "http://b5:80")
	out := 0
	for _, b := range r.Snapshot() {
		fail(r, b, start, 10)
		if b.State(start) == backends.Ejected {
			out++
		}
	}
	if out != 2 {
		t.Errorf("ejected: %d of 5, want 2", out)
	}
	alone := registry(t, "http://b1:80")
	if fail(alone, alone.Snapshot()[0], start, 10) {
		t.Error("the only backend was ejected")
	}
}

// TestRB10: an engine that asked for a pause is back after it, without a restart.
func TestRB10(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	r.Cool(b, start, 0)
	if got := b.State(start); got != backends.Cooling {
		t.Errorf("after 429: %v, want cooling", got)
	}
	if got := b.State(start.Add(time.Second)); got != backends.Up {
		t.Errorf("a second later: %v, want up", got)
	}
	r.Cool(b, start, 7*time.Second)
	if got := b.Retry(start).Sub(start); got != 7*time.Second {
		t.Errorf("Retry-After 7: pause of %v", got)
	}
	r.Cool(b, start, time.Hour)
	if got := b.Retry(start).Sub(start); got != 30*time.Second {
		t.Errorf("Retry-After of an hour: pause of %v, want the bound 30s", got)
	}
}

func TestSlowStart(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	if got := r.Limit(b, 100, start); got != 100 {
		t.Errorf("never ejected: limit %d, want 100", got)
	}
	fail(r, b, start, 3)
	back := b.Retry(start)
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {3 * time.Second, 10}, {15 * time.Second, 50}, {30 * time.Second, 100}, {time.Hour, 100}} {
		if got := r.Limit(b, 100, back.Add(tc.after)); got != tc.want {
			t.Errorf("%v after its return: limit %d, want %d", tc.after, got, tc.want)
		}
	}
}

// A success of a request that was under way ends an ejection early; the slow start
// belongs to that return, not to the moment at which the ejection would have ended.
func TestSlowStartAfterAnEarlyReturn(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	fail(r, b, start, 3)
	if got := r.Limit(b, 100, start.Add(time.Second)); got != 100 {
		t.Errorf("while it is ejected: limit %d, want 100", got)
	}
	r.Succeeded(b, start.Add(2*time.Second))
	back := start.Add(2 * time.Second)
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {3 * time.Second, 10}, {8 * time.Second, 26}, {30 * time.Second, 100}} {
		if got := r.Limit(b, 100, back.Add(tc.after)); got != tc.want {
			t.Errorf("%v after its return: limit %d, want %d", tc.after, got, tc.want)
		}
	}
}

func TestStates(t *testing.T) {
	r := registry(t, "http://b1:80", "http://b2:80")
	b := r.Find("b1:80")
	fail(r, b, start, 3)
	r.Cool(b, start, time.Minute)
	b.Drain(true)
	b.SetAsleep(true)
	b.SetUnreachable(true)
	for _, step := range []struct {
		want   backends.State
		remove func()
	}{
		{backends.Unreachable, func() { b.SetUnreachable(false) }},
		{backends.Asleep, func() { b.SetAsleep(false) }},
		{backends.Draining, func() { b.Drain(false) }},
		{backends.Ejected, func() { r.Succeeded(b, start) }},
		{backends.Cooling, func() {}},
	} {
		if got := b.State(start); got != step.want {
			t.Errorf("state: got %v, want %v", got, step.want)
		}
		step.remove()
	}
}

func TestEjectionValidate(t *testing.T) {
	for _, tc := range []struct {
		change func(*backends.Ejection)
		want   string
	}{
		{func(e *backends.Ejection) { e.Failures = 0 }, "ejection.failures: 0"},
		{func(e *backends.Ejection) { e.Base = 0 }, "ejection.base: 0s"},
		{func(e *backends.Ejection) { e.Max = time.Second }, "ejection.max: 1s"},
		{func(e *backends.Ejection) { e.MaxShare = 1.5 }, "ejection.max_share: 1.5"},
		{func(e *backends.Ejection) { e.SlowStart = -1 }, "ejection.slow_start"},
		{func(e *backends.Ejection) { e.MaxCooling = -1 }, "ejection.max_cooling"},
	} {
		e := backends.DefaultEjection()
		tc.change(&e)
		if _, err := backends.NewRegistry(e); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewRegistry: got %v, want an error with %q", err, tc.want)
		}
	}
}
