package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHolder(t *testing.T) {
	var out bytes.Buffer
	h := &holder{to: &out}
	h.Write([]byte("a"))
	if out.Len() > 0 {
		t.Errorf("written early: %q", out.String())
	}
	h.release()
	h.Write([]byte("b"))
	h.release()
	if out.String() != "ab" {
		t.Errorf("got %q, want ab", out.String())
	}

	full := &holder{to: &out}
	out.Reset()
	full.Write(make([]byte, maxHeld))
	full.Write([]byte("x"))
	if out.Len() != maxHeld+1 {
		t.Errorf("%d bytes came through of %d that are too many to hold", out.Len(), maxHeld+1)
	}
}

// both is stdout and stderr of a process on one terminal.
type both struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *both) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *both) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestTheSummaryComesBeforeWarnings(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out both
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"serve", "--backend", "http://127.0.0.1:1", "--backend", "http://127.0.0.1:1/", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, &out, &out)
	}()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(out.String(), "does not say") && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	text := out.String()
	at := func(part string) int { return strings.Index(text, part) }
	if pool := at("models: not known yet"); pool < 0 || pool > at("warning: --backend") || pool > at("does not say what it serves") {
		t.Errorf("want the summary, then the warnings:\n%s", text)
	}
	if strings.Contains(text, "curl") {
		t.Errorf("a line to try without a model:\n%s", text)
	}
}
