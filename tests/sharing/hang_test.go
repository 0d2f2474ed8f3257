package sharing

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
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
