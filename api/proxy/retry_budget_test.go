package proxy

import (
	"testing"
	"time"
)

func TestRetryBudget(t *testing.T) {
	var b retryBudget
	now := time.Unix(1_000_000, 0)
	taken := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	if got := taken(); got != retryFloor {
		t.Errorf("a quiet router has %d retries, want %d", got, retryFloor)
	}
	now = now.Add(10 * time.Second)
	for range 1000 {
		b.request(now)
	}
	if got := taken(); got != 200 {
		t.Errorf("%d retries for 1000 requests, want 200", got)
	}
	b.giveBack(now)
	if got := taken(); got != 1 {
		t.Errorf("%d retries after one was given back", got)
	}
	now = now.Add(9*time.Second + 999*time.Millisecond)
	if got := taken(); got != 0 {
		t.Errorf("%d retries while the window still holds 200", got)
	}
	now = now.Add(time.Millisecond)
	if got := taken(); got != retryFloor {
		t.Errorf("%d retries after the window has passed, want %d", got, retryFloor)
	}
}

func TestRetryBudgetSpreadOverSeconds(t *testing.T) {
	var b retryBudget
	start := time.Unix(1_000_000, 0)
	for i := range 600 { // ten requests a second for a minute
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		b.request(now)
		b.take(now)
		if b.requests < 0 || b.retries < 0 || b.requests > 100 || b.retries > 20 {
			t.Fatalf("after %d: %d requests, %d retries in the window", i, b.requests, b.retries)
		}
	}
	if b.requests != 100 || b.retries < 15 {
		t.Errorf("%d requests, %d retries in the window", b.requests, b.retries)
	}
}

func TestRetryBudgetClock(t *testing.T) {
	var b retryBudget
	now := time.Unix(1_000_000, 0)
	for range 100 {
		b.request(now)
	}
	b.request(now.Add(-time.Second)) // a little out of order: nothing is lost
	if b.requests != 101 {
		t.Errorf("%d requests in the window", b.requests)
	}
	b.request(now.Add(-time.Hour)) // set back: the window starts anew
	if b.requests != 1 {
		t.Errorf("%d requests after the clock was set back", b.requests)
	}
	b.request(time.Unix(-5, 0))
	if b.requests != 1 || b.retries != 0 {
		t.Errorf("%d requests before 1970", b.requests)
	}
}
