package health

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
)

// patient answers probes with a status; 0 is never.
type patient struct {
	status atomic.Int64
	probes atomic.Int64
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/health" {
		http.Error(w, "not a probe", http.StatusTeapot)
		return
	}
	p.probes.Add(1)
	status := int(p.status.Load())
	if status == 0 {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(status)
}

func (w *world) patient(addr string, status int) *patient {
	w.t.Helper()
	p := new(patient)
	p.status.Store(int64(status))
	s, err := w.net.Serve(addr, p)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return p
}

// probe runs a prober until the test ends.
func (w *world) probe(c ProbeConfig, l *told, r *backends.Registry) {
	p := NewProber(c, w.get, ProbeHooks{
		Changed: func(b *backends.Backend, now backends.Probe, why error) {
			if (now == backends.Answers) != (why == nil) {
				w.t.Errorf("%v because of %v", now, why)
			}
			l.add("%s %s", b.ID, now)
		},
		Frozen: func(b *backends.Backend, silent time.Duration) { l.add("%s frozen for %v", b.ID, silent) },
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, r.Snapshot) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run returned %v", err)
		}
	})
}

func (l *told) want(t *testing.T, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, l.take()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestProbes: FO-06: an engine that says that it cannot work is out at once, one that says nothing, or fails,
// after some probes, and either is back with the first answer.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(t), new(told)
		one := w.patient("b1:80", http.StatusServiceUnavailable)
		w.patient("b2:80", http.StatusNotFound) // has no such path
		r := registry(t, at("http://b1:80"), at("http://b2:80"), at("http://nobody:80"))
		w.probe(ProbeConfig{}, l, r)
		state := func(id string) backends.State { return r.Find(id).State(time.Now()) }

		synctest.Wait()
		l.want(t, "b1:80 refuses")
		if state("b1:80") != backends.Unreachable || r.Find("b1:80").OutOfTouch() || state("nobody:80") != backends.Up {
			t.Error("after one probe")
		}
		one.status.Store(http.StatusOK)
		time.Sleep(6 * time.Second)
		l.want(t, "b1:80 answers")
		time.Sleep(6 * time.Second)
		l.want(t, "nobody:80 lost")
		if state("b1:80") != backends.Up || state("nobody:80") != backends.Unreachable || !r.Find("nobody:80").OutOfTouch() {
			t.Error("after three probes")
		}
		one.status.Store(0) // it hangs: a probe takes 5 s, and the next comes 5 s later
		time.Sleep(20 * time.Second)
		l.want(t)
		time.Sleep(20 * time.Second)
		l.want(t, "b1:80 lost")
		one.status.Store(http.StatusUnauthorized)
		time.Sleep(15 * time.Second)
		l.want(t, "b1:80 answers")
		one.status.Store(http.StatusBadGateway) // of something between: it may work all the same
		time.Sleep(8 * time.Second)
		l.want(t)
		time.Sleep(8 * time.Second)
		l.want(t, "b1:80 lost")
		if !r.Find("b1:80").OutOfTouch() {
			t.Error("nobody tries it, even where it is the last")
		}
		one.status.Store(http.StatusOK)
		time.Sleep(6 * time.Second)
		l.want(t, "b1:80 answers")
		set(t, r, at("http://b2:80"))
		time.Sleep(time.Minute)
		before := one.probes.Load()
		time.Sleep(time.Minute)
		if one.probes.Load() != before {
			t.Error("a backend that has left is probed")
		}
	})
}

// TestProbesAreSpread: one URL is probed once, however many ranks are behind it, and at moments
// of its own.
func TestProbesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(t), new(told)
		p := w.patient("b1:80", http.StatusOK)
		r := registry(t, at("http://b1:80"), backends.Spec{URL: "http://b1:80", Rank: 1}, backends.Spec{URL: "http://b1:80", Rank: 2})
		w.probe(ProbeConfig{Interval: time.Second}, l, r)
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := p.probes.Load(); n < 85 || n > 115 {
			t.Errorf("%d probes of one URL in 100 s, want about 100 however many ranks", n)
		}
		p.status.Store(http.StatusServiceUnavailable)
		time.Sleep(2 * time.Second)
		if got := strings.Join(l.take(), ", "); strings.Count(got, "refuses") != 3 {
			t.Errorf("told: %s; want every rank", got)
		}
	})
}

// TestFrozen: an engine that has begun answers and sends nothing is told of, and not one
// that has none, or that sends.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(t), new(told)
		w.patient("b1:80", http.StatusOK)
		r := registry(t, at("http://b1:80"))
		b := r.Find("b1:80")
		w.probe(ProbeConfig{FrozenAfter: 30 * time.Second}, l, r)
		time.Sleep(time.Hour)
		l.want(t)
		b.WaitBegins(time.Now())
		b.WaitBegins(time.Now())
		for range 60 {
			time.Sleep(10 * time.Second)
			b.Heard(time.Now())
		}
		b.WaitEnds()
		time.Sleep(29 * time.Second)
		l.want(t)
		time.Sleep(2500 * time.Millisecond)
		if lines := l.take(); len(lines) == 0 || !strings.HasPrefix(lines[0], "b1:80 frozen for 3") {
			t.Errorf("told: %v", lines)
		}
		b.WaitEnds()
		time.Sleep(time.Minute)
		if n := len(l.take()); n > 0 {
			t.Errorf("told %d times of a backend without answers", n)
		}
	})
}
