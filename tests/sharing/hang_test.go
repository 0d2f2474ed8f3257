package sharing

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// deaf starts a server that takes connections and never answers.
func deaf(t testing.TB) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var taking sync.WaitGroup
	var taken []net.Conn
	taking.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken = append(taken, c)
		}
	})
	t.Cleanup(func() {
		l.Close()
		taking.Wait()
		for _, c := range taken {
			c.Close()
		}
	})
	return l.Addr().String()
}

// TestRD03SeedsThatNeverAnswer: all seeds of a cluster take connections and answer nothing.
// Decisions are made, and the log has a line now and then, not one for each of them.
func TestRD03SeedsThatNeverAnswer(t *testing.T) {
	t.Parallel()
	const seeds, asked, mostLines = 6, 300, 5
	var log lines
	c := settings("")
	c.Addresses, c.Cluster, c.Logger = nil, true, slog.New(slog.NewTextHandler(&log, nil))
	for range seeds {
		c.Addresses = append(c.Addresses, deaf(t))
	}
	r := launch(t, c, 100_000)
	r.add("b0:80", "b1:80")
	var made atomic.Int64
	paced(asked, 100, func(i int) {
		if r.ask(chain(uint64(i), 32)) != nil {
			made.Add(1)
		}
	})
	s := r.index.Status()
	t.Logf("%d of %d decisions are made, %d lines in the log; failures: %v, breaker %s", made.Load(), asked, log.written.Load(), s.Failures, s.Breaker)
	if made.Load() != asked || log.written.Load() > mostLines {
		t.Errorf("want all decisions, and at most %d lines", mostLines)
	}
}

// lines counts the lines that are written to it.
type lines struct{ written atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	l.written.Add(int64(bytes.Count(p, []byte{'\n'})))
	return len(p), nil
}

// TestRD14RedisThatNeverAnswers: every call to Redis blocks, and every decision is made, of
// many at a time.
func TestRD14RedisThatNeverAnswers(t *testing.T) {
	t.Parallel()
	const askers, each = 500, 40
	r := launch(t, settings(deaf(t)), 100_000)
	r.add("b0:80", "b1:80", "b2:80", "b3:80")
	await(t, "the router has given up on Redis", func() bool { return r.index.Status().Breaker == "open" })
	var mu sync.Mutex
	times := hdrhistogram.New(1, int64(time.Minute), 3)
	var asking sync.WaitGroup
	for asker := range askers {
		asking.Go(func() {
			for i := range each {
				began := time.Now()
				if r.ask(chain(uint64(asker*each+i), 32)) == nil {
					return
				}
				mu.Lock()
				_ = times.RecordValue(int64(time.Since(began)))
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	s := r.index.Status()
	t.Logf("%d decisions, %d at a time: p50 %v, p99 %v; %d uses wait, %d do not fit", times.TotalCount(), askers,
		time.Duration(times.ValueAtQuantile(50)), time.Duration(times.ValueAtQuantile(99)), s.Queued, s.Dropped)
	if times.TotalCount() != askers*each {
		t.Errorf("%d decisions, want %d", times.TotalCount(), askers*each)
	}
	if s.Dropped == 0 {
		t.Error("nothing is counted of what did not fit into the queue")
	}
}
