package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
)

// hashed is the record of a request whose prompt has keys.
func hashed() *feedback.Record {
	r := answered()
	r.Keys, r.BlockBytes, r.StreamBytes = []kvindex.Key{7, 8}, 256, 600
	return r
}

// stuck is a sink that takes nothing until it is let go, and what fails says.
type stuck struct {
	mu      sync.Mutex
	written bytes.Buffer
	fails   error
	enter   chan struct{} // nil: it is not stuck
	closed  bool
	refuses error // to close
}

func (s *stuck) write(lines []byte) (int, error) {
	if s.enter != nil {
		<-s.enter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return bytes.Count(lines, []byte("\n")), s.fails
	}
	s.written.Write(lines)
	return 0, nil
}

func (s *stuck) close() error { s.closed = true; return s.refuses }

func (s *stuck) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// logTo runs a request log over a sink; end ends it.
func logTo(t *testing.T, s sink, logger *slog.Logger) (l *requestLog, end func()) {
	t.Helper()
	l = newRequestLog(s, logger, prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	return l, func() {
		cancel()
		<-ended
	}
}

// What a record says of a request is in its line, and of others there is none.
func TestRequestLogLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	tel, err := New(Options{RequestLog: RequestLogConfig{Path: path, MaxBytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	first := hashed()
	tel.Observe(first)
	first.Keys[0] = 99 // keys are lent
	refused := hashed()
	refused.Result, refused.Status, refused.Usage, refused.TTFT = feedback.Saturated, 429, feedback.Usage{}, 0
	refused.Strategy, refused.Reason, refused.Backend, refused.DecisionID = "", "", "", ""
	refused.Keys, refused.StreamBytes = nil, 100 // shorter than a block
	tel.Observe(refused)
	tel.Observe(answered()) // has no prompt
	unknown := hashed()
	unknown.Pool = ""
	tel.Observe(unknown)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tel.Run(ctx); err != nil { // what was observed before the end is written
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []workload.LoggedRequest
	for line := range bytes.Lines(text) {
		r, err := workload.ParseLoggedRequest(line)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	prompt, cached, output := 700, 496, 20
	want := []workload.LoggedRequest{
		{
			Arrived: time.Unix(100, 0).UTC(), Pool: "chat", Strategy: "PREFIX_AWARE", Reason: "longest_match", Backend: "b2:8000",
			Result: "success", Status: 200, TTFTSeconds: 0.2, DurationSeconds: 3,
			PromptTokens: &prompt, CachedTokens: &cached, OutputTokens: &output,
			StreamBytes: 600, BlockBytes: 256, Keys: workload.BlockKeys{7, 8},
		},
		{
			Arrived: time.Unix(100, 0).UTC(), Pool: "chat", Result: "saturated", Status: 429, DurationSeconds: 3,
			StreamBytes: 100, BlockBytes: 256, Keys: workload.BlockKeys{},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if recent := tel.Recent(4); slices.ContainsFunc(recent, func(r feedback.Record) bool { return r.Keys != nil }) {
		t.Error("keys that are lent are remembered")
	}
}

// A sink that hangs holds nobody up: what does not fit the queue is dropped and counted, the
// rest is written when it goes on.
func TestRequestLogNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{enter: make(chan struct{})}
		l, end := logTo(t, s, slog.New(slog.DiscardHandler))
		l.observe(hashed())
		synctest.Wait() // the first line is being written
		const more = 1000
		for range requestLogQueue + more {
			l.observe(hashed())
		}
		if got := testutil.ToFloat64(l.dropped); got != more {
			t.Errorf("%v dropped, want %d", got, more)
		}
		close(s.enter)
		end()
		if got := strings.Count(s.written.String(), "\n"); got != requestLogQueue+1 || !s.closed {
			t.Errorf("%d lines written, closed %v, want %d", got, s.closed, requestLogQueue+1)
		}
	})
}

// Long prompts that wait are bounded in bytes, and room is made when they are written.
func TestRequestLogBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{enter: make(chan struct{})}
		l, end := logTo(t, s, slog.New(slog.DiscardHandler))
		l.observe(hashed())
		synctest.Wait() // the first line is being written
		const keys, observed = 100_000, 100
		long := hashed()
		long.Keys, long.StreamBytes = make([]kvindex.Key, keys), keys*long.BlockBytes
		for range observed {
			l.observe(long)
		}
		const fit = requestLogBytes / (keys*8 + 1000)
		if got := testutil.ToFloat64(l.dropped); got != observed-fit {
			t.Errorf("%v of %d long prompts dropped, want %d", got, observed, observed-fit)
		}
		close(s.enter)
		synctest.Wait()
		l.observe(long)
		end()
		if got := strings.Count(s.written.String(), "\n"); got != 1+fit+1 {
			t.Errorf("%d lines written, want %d", got, 1+fit+1)
		}
		if queued, pending := l.queued.Load(), l.pending.Load(); queued != 0 || pending != 0 {
			t.Errorf("%d bytes and %d lines are thought to wait", queued, pending)
		}
	})
}

// A sink that hangs does not hold the end up, and what is then not written is counted.
func TestRequestLogEndsWithoutItsSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{enter: make(chan struct{})}
		l, end := logTo(t, s, slog.New(slog.DiscardHandler))
		l.observe(hashed())
		synctest.Wait() // the first line is being written
		for range 9 {
			l.observe(hashed())
		}
		began := time.Now()
		end()
		if got := time.Since(began); got != requestLogDrain {
			t.Errorf("the end took %v, want %v", got, requestLogDrain)
		}
		if got := testutil.ToFloat64(l.dropped); got != 10 {
			t.Errorf("%v dropped, want 10", got)
		}
		close(s.enter) // so that nothing outlives the test
	})
}

// That a file cannot be closed is said, and ends nothing else.
func TestRequestLogCannotClose(t *testing.T) {
	var log bytes.Buffer
	s := &stuck{refuses: errors.New("disk on fire")}
	_, end := logTo(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	end()
	if !s.closed || !strings.Contains(log.String(), "disk on fire") {
		t.Errorf("closed %v, the log says %q", s.closed, log.String())
	}
}

// Lines that a sink loses are counted; that it does is said once, and that it is over.
func TestRequestLogCountsLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &stuck{fails: errors.New("disk on fire")}
		l, end := logTo(t, s, slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			l.observe(hashed())
			synctest.Wait()
		}
		s.fail(nil)
		for range 2 {
			l.observe(hashed())
			synctest.Wait()
		}
		end()
		if got := testutil.ToFloat64(l.dropped); got != 3 {
			t.Errorf("%v dropped, want 3", got)
		}
		if got := strings.Count(s.written.String(), "\n"); got != 2 {
			t.Errorf("%d lines written, want 2", got)
		}
		if lost, again := strings.Count(log.String(), "disk on fire"), strings.Count(log.String(), "written again"); lost != 1 || again != 1 {
			t.Errorf("the log says so %d and %d times:\n%s", lost, again, log.String())
		}
	})
}

// A record that could not be read back is dropped alone.
func TestRequestLogDropsNonsense(t *testing.T) {
	s := new(stuck)
	l, end := logTo(t, s, slog.New(slog.DiscardHandler))
	bad := hashed()
	bad.Usage.Prompt = 1 << 40
	l.observe(bad)
	l.observe(hashed())
	end()
	if dropped, lines := testutil.ToFloat64(l.dropped), strings.Count(s.written.String(), "\n"); dropped != 1 || lines != 1 {
		t.Errorf("%v dropped and %d lines, want 1 and 1", dropped, lines)
	}
}

func TestRequestLogPath(t *testing.T) {
	_, err := New(Options{RequestLog: RequestLogConfig{Path: t.TempDir(), MaxBytes: 1 << 20}})
	if err == nil || !strings.HasPrefix(err.Error(), "request_log.path: ") {
		t.Errorf("a directory: %v", err)
	}
	tel, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tel.Run(t.Context()), tel.Close()); err != nil {
		t.Errorf("without a request log: %v", err)
	}
}
