package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// absent is a backend that takes requests and never answers, until they are gone.
type absent struct {
	mu      sync.Mutex
	arrived map[string]chan struct{} // by request id
	left    int
}

func (a *absent) arrival(id string) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.arrived == nil {
		a.arrived = make(map[string]chan struct{})
	}
	if a.arrived[id] == nil {
		a.arrived[id] = make(chan struct{})
	}
	return a.arrived[id]
}

// gone is how many requests have come and been given up.
func (a *absent) gone() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// ServeHTTP implements [http.Handler].
func (a *absent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // what do you serve?
		http.NotFound(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	close(a.arrival(r.Header.Get("X-Request-Id")))
	<-r.Context().Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left++
}

// resetting is a backend that resets every connection once it has the request.
func resetting(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// aborting is a backend that closes every connection without an answer.
func aborting(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// The pools of the mix, and which backends of setup they have.
var mixPools = map[string][]int{
	"fine": {0, 1}, "dies": {2}, "stuck": {3}, "slow": {4}, "half-refused": {5, 9}, "half-busy": {6, 7}, "broken": {8},
	"resets": {10}, "aborts": {11}, "absent": {12},
}

// mix starts a fleet in which each model meets another misfortune.
func mix(t *testing.T, never *absent) *fleet {
	t.Helper()
	f := start(t, setup{
		engines: 9,
		engine:  func(c *server.Config) { c.KVTokens, c.Speed = 50_000, 20 },
		others:  []http.Handler{nil, http.HandlerFunc(resetting), http.HandlerFunc(aborting), never},
		configure: func(c *config.Config) {
			c.Timeouts.FirstByte = 3 * time.Second
			all := c.Pools[0]
			c.Pools = nil
			for name, members := range mixPools {
				p := all
				p.Name, p.Models, p.Backends = name, []config.Model{{Name: name, Served: model}}, nil
				for _, i := range members {
					p.Backends = append(p.Backends, all.Backends[i])
				}
				c.Pools = append(c.Pools, p)
			}
		},
	})
	f.fault(2, `{"die_after_events":3}`)
	f.fault(3, `{"hang":"stream"}`)
	f.fault(4, hangHeaders)
	f.fault(6, `{"status":503,"count":-1}`)
	f.fault(8, `{"status":500,"count":-1}`)
	return f
}

// ML-02: whatever becomes of requests, the counts of what is in flight return to 0,
// and every request has one record that says how it ended.
func TestML02CountsReturnToZero(t *testing.T) {
	const each, fewer, all = 200, 30, 2000
	var never absent
	f := mix(t, &never)
	ctx, stop := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			for i, n := range f.inFlight() {
				if n < 0 {
					t.Errorf("%d requests are in flight on backend %d", n, i)
				}
			}
		}
	})
	models := []string{"dies", "stuck", "half-refused", "half-busy", "broken", "resets", "aborts", "absent"}
	limited(all, 32, func(i int) {
		name := "fine"
		switch {
		case i < each*len(models):
			name = models[i%len(models)]
		case i < each*len(models)+fewer:
			name = "slow"
		}
		f.suffer(name, i, &never)
	})
	stop()
	watcher.Wait()
	f.settled()
	for i := range f.engines {
		f.await("no double computes anything", func() bool { return f.engineState(i).busy() == 0 })
	}
	f.await("the absent backend saw every client leave", func() bool { return never.gone() == each })
	if s := f.engineState(3); s.Aborted+s.Finished != each {
		t.Errorf("of %d streams that hung %d were finished and %d given up", each, s.Finished, s.Aborted)
	}
	want := map[string]int{
		"upstream_aborted": each, "client_closed": 2 * each, "upstream_timeout": fewer, "engine_error": each,
		"upstream_unavailable": 2 * each, "success": all - 6*each - fewer,
	}
	for result, n := range want {
		series := fmt.Sprintf("result=%q", result)
		f.await(fmt.Sprintf("%d requests ended in %s", n, result), func() bool {
			return int(f.metric("warmroute_requests_total", series)) >= n
		})
	}
	if got := int(f.metric("warmroute_requests_total")); got != all {
		t.Errorf("%d requests were counted, %d sent", got, all)
	}
	for range 20 { // and all is well afterwards
		f.mustChat(ask{messages: []message{user(prose(1, 2000))}, model: "fine"})
	}
}

// suffer sends one request of the mix and checks how it ends for its client.
func (f *fleet) suffer(name string, i int, never *absent) {
	a := ask{messages: []message{user(prose(uint64(i%50), 2000))}, model: name, tokens: 10}
	switch name {
	case "stuck":
		f.leaveAfterHeaders(a)
		return
	case "absent":
		f.leaveBeforeHeaders(a, never)
		return
	}
	r, err := f.chat(f.t.Context(), a)
	switch name {
	case "fine", "half-refused", "half-busy":
		if err != nil || r.status != http.StatusOK || !r.done {
			f.t.Errorf("%s: %+v, %v", name, r, err)
		}
	case "dies":
		if r.status != http.StatusOK || err == nil || r.done {
			f.t.Errorf("%s: %+v, %v: want an answer that broke off", name, r, err)
		}
	default:
		want := map[string]int{"slow": 504, "broken": 500, "resets": 502, "aborts": 502}[name]
		if err != nil || r.status != want {
			f.t.Errorf("%s: %+v, %v: want %d", name, r, err, want)
		}
	}
}

// leaveAfterHeaders gives a stream up after its first line.
func (f *fleet) leaveAfterHeaders(a ask) {
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	resp, r, err := f.open(ctx, a)
	if err != nil || r.status != http.StatusOK {
		f.t.Errorf("%+v, %v", r, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		f.t.Error(err)
	}
	cancel()
}

// leaveBeforeHeaders gives a request up once the backend has it.
func (f *fleet) leaveBeforeHeaders(a ask, never *absent) {
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	a.id = fmt.Sprintf("request-%d", requests.Add(1))
	go func() {
		select {
		case <-never.arrival(a.id):
		case <-ctx.Done():
		}
		cancel()
	}()
	if _, err := f.chat(ctx, a); !errors.Is(err, context.Canceled) {
		f.t.Errorf("a request that nobody answers: %v", err)
	}
}

// A client that leaves frees the engine long before the answer would have ended.
func TestClientCancelReachesEngine(t *testing.T) {
	const tokens = 20_000 // minutes, at this speed
	for _, whole := range []bool{false, true} {
		t.Run(map[bool]string{false: "stream", true: "not streamed"}[whole], func(t *testing.T) {
			f := start(t, setup{engines: 1, engine: func(c *server.Config) { c.Speed = 1 }})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := f.chat(ctx, ask{messages: []message{user(prose(1, 2000))}, tokens: tokens, whole: whole})
				ended <- err
			}()
			f.await("the engine works", func() bool { return f.engineState(0).busy() == 1 })
			f.awaitInFlight(1)
			left := time.Now()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			f.await("the engine has given it up", func() bool {
				s := f.engineState(0)
				return s.Aborted == 1 && s.busy() == 0
			})
			t.Logf("the engine knew %v after the client had left", time.Since(left))
			f.awaitInFlight(0)
			if n := f.metric("warmroute_requests_total", `result="client_closed"`); n != 1 {
				t.Errorf("%v requests are counted as client_closed, want 1", n)
			}
		})
	}
}
