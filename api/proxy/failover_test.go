package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// pinned allows requests to name their first backend.
func pinned(s *setup) { s.options.AllowPin = true }

// byID finds a backend by the URL of its engine.
func (f *fleet) byURL(url string) *backends.Backend {
	f.t.Helper()
	for _, b := range f.pool.Backends() {
		if b.URL.String() == url {
			return b
		}
	}
	f.t.Fatalf("no backend at %s", url)
	return nil
}

// prefer makes the backend at url the holder of what the body asks, by letting it
// answer first while all others are drained.
func (f *fleet) prefer(url, body string) {
	f.t.Helper()
	for _, b := range f.pool.Backends() {
		b.Drain(b.URL.String() != url)
	}
	wantOK(f.t, f.send("POST", chatPath, body))
	for _, b := range f.pool.Backends() {
		b.Drain(false)
	}
}

// FO-01: an engine that closes idle connections while requests are on their way.
func TestFO01StaleConnections(t *testing.T) {
	for name, engines := range map[string]int{"one backend": 1, "two backends": 2} {
		t.Run(name, func(t *testing.T) {
			var urls []string
			for range engines {
				urls = append(urls, closesAfterSome(t))
			}
			f := start(t, urls)
			body := chat(strings.Repeat("x", 100<<10))
			const n = 60
			stale := 0
			for i := range n {
				got := f.send("POST", chatPath, body)
				if got.StatusCode != http.StatusOK {
					t.Fatalf("request %d: %d %s", i, got.StatusCode, got.body)
				}
				if r := f.last(i + 1); r.Attempts > 1 {
					stale++
				}
			}
			for _, b := range f.pool.Backends() {
				if s := b.State(time.Now()); s != backends.Up {
					t.Errorf("backend %s is %v", b.ID, s)
				}
			}
			if stale == 0 {
				t.Error("no request met a closed connection")
			}
			f.settled(n)
		})
	}
}

// closesAfterSome starts an engine that answers some requests on each connection as if
// more could follow, and closes the connection when the next one begins.
func closesAfterSome(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var handlers sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		handlers.Wait()
	})
	handlers.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			handlers.Go(func() {
				defer conn.Close()
				answered := 0
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if answered++; answered > 7 {
						reset(w)
						return
					}
					io.Copy(io.Discard, r.Body)
					writeWhole(w)
				})}
				s.Serve(newOneConn(conn))
			})
		}
	})
	return "http://" + l.Addr().String()
}

// oneConn is a listener that accepts one connection and ends when that does.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
	addr   net.Addr
}

func newOneConn(c net.Conn) *oneConn {
	l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{}), addr: c.LocalAddr()}
	l.conn <- &notifyingConn{Conn: c, closed: l.closed}
	return l
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }

type notifyingConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *notifyingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func TestFO02DeadBackend(t *testing.T) {
	alive, _ := echoes(t, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) }))
	f := start(t, []string{server.URL, alive[0]})
	body := chat(story("affinity", 4000))
	f.prefer(server.URL, body)
	dead := f.byURL(server.URL)
	server.CloseClientConnections()
	server.Close()
	n := 1
	for dead.State(time.Now()) == backends.Up && n < 50 {
		got := f.send("POST", chatPath, body)
		n++
		wantOK(t, got)
		r := f.last(n)
		if r.Backend == dead.ID {
			t.Error("answered by the dead backend")
		}
		if header := got.Header.Get("X-Warmroute-Attempts"); header != strconv.Itoa(r.Attempts) {
			t.Errorf("%d attempts, header %q", r.Attempts, header)
		}
	}
	if s := dead.State(time.Now()); s != backends.Ejected {
		t.Errorf("the dead backend is %v after %d requests", s, n)
	}
	wantOK(t, f.send("POST", chatPath, body))
	n++
	if r := f.last(n); r.Attempts != 1 || r.MatchedBlocks != r.PromptBlocks {
		t.Errorf("affinity did not move: %d attempts, %d of %d blocks, %s", r.Attempts, r.MatchedBlocks, r.PromptBlocks, r.Reason)
	}
	f.settled(n)
}

func TestFO04NoRetryAfterTheFirstByte(t *testing.T) {
	var calls atomic.Int32
	dies := func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		startEvents(w)
		events(w, delta, delta)
		hangUp(w)
	}
	f := start(t, []string{engine(t, dies), engine(t, dies), engine(t, dies)})
	got := f.send("POST", chatPath, chat("hello", streaming))
	if got.err == nil || calls.Load() != 1 {
		t.Errorf("%d engines were asked, body error %v", calls.Load(), got.err)
	}
	f.settled(1)
}

func TestFO04AllOverloaded(t *testing.T) {
	var calls atomic.Int32
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "busy "+strconv.Itoa(int(calls.Add(1))))
	}
	for engines, attempts := range map[int]int{1: 1, 2: 2, 3: 3, 5: 3} {
		calls.Store(0)
		var urls []string
		for range engines {
			urls = append(urls, engine(t, busy))
		}
		f := start(t, urls)
		got := f.send("POST", chatPath, chat("hello"))
		if got.StatusCode != http.StatusServiceUnavailable || got.body != "busy "+strconv.Itoa(attempts) || got.Header.Get("Retry-After") != "7" {
			t.Errorf("%d engines: got %d %q, Retry-After %q", engines, got.StatusCode, got.body, got.Header.Get("Retry-After"))
		}
		if n := int(calls.Load()); n != attempts || got.Header.Get("X-Warmroute-Attempts") != strconv.Itoa(attempts) {
			t.Errorf("%d engines: %d attempts, header %q", engines, n, got.Header.Get("X-Warmroute-Attempts"))
		}
		if r := f.last(1); r.Result != feedback.Saturated || r.Attempts != attempts {
			t.Errorf("%d engines: recorded as %v after %d", engines, r.Result, r.Attempts)
		}
		f.settled(1)
	}
}

// The engine had the whole request and hung up: it may have done the work, so nobody
// else does it again.
func TestFO04HangsUpAfterTheBody(t *testing.T) {
	var calls atomic.Int32
	silent := func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		readAll(r)
		reset(w)
	}
	f := start(t, []string{engine(t, silent), engine(t, silent)})
	got := f.send("POST", chatPath, chat("hello"))
	if kind, code := jsonError(t, got); got.StatusCode != http.StatusBadGateway || kind != "server_error" || code != "upstream_unavailable" {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	if calls.Load() != 1 {
		t.Errorf("%d engines were asked", calls.Load())
	}
	f.settled(1)
}

func TestFO04AllDead(t *testing.T) {
	urls := []string{deadURL(t), deadURL(t), deadURL(t), deadURL(t)}
	f := start(t, urls)
	got := f.send("POST", chatPath, chat("hello"))
	jsonError(t, got)
	if got.StatusCode != http.StatusBadGateway || strings.Count(got.body, "no connection") != 3 {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	if r := f.last(1); r.Result != feedback.Unavailable || r.Attempts != 3 {
		t.Errorf("recorded as %v after %d", r.Result, r.Attempts)
	}
	f.settled(1)
}

func TestFO05ClientErrorsAreNoStrikes(t *testing.T) {
	const refusal = `{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000","type":"BadRequestError","param":null,"code":400}}`
	var refused atomic.Int32
	h := func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(readAll(r), "too much") {
			refused.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, refusal)
			return
		}
		writeWhole(w)
	}
	f := start(t, []string{engine(t, h), engine(t, h)})
	for i := range 50 {
		body := chat("too much")
		if i%2 == 1 {
			body = chat("too much", streaming)
		}
		if got := f.send("POST", chatPath, body); got.StatusCode != http.StatusBadRequest || got.body != refusal {
			t.Fatalf("got %d %s", got.StatusCode, got.body)
		}
		if r := f.last(i + 1); r.Result != feedback.Rejected || r.Attempts != 1 {
			t.Errorf("recorded as %v after %d", r.Result, r.Attempts)
		}
	}
	if refused.Load() != 50 {
		t.Errorf("the engines were asked %d times", refused.Load())
	}
	for _, b := range f.pool.Backends() {
		if s := b.State(time.Now()); s != backends.Up {
			t.Errorf("backend %s is %v", b.ID, s)
		}
	}
	wantOK(t, f.send("POST", chatPath, chat("good")))
	f.settled(51)
}

func TestFO09OverloadLeadsElsewhere(t *testing.T) {
	for _, status := range []int{429, 503, 529, 500, 501, 502, 504} {
		for _, after := range []string{"", "3", "Wed, 21 Oct 2015 07:28:00 GMT"} {
			var other atomic.Int32
			troubled := engine(t, func(w http.ResponseWriter, _ *http.Request) {
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(status)
				io.WriteString(w, "the engine's own words")
			})
			fine := engine(t, func(w http.ResponseWriter, _ *http.Request) {
				other.Add(1)
				writeWhole(w)
			})
			f := start(t, []string{troubled, fine}, func(s *setup) { s.config.Strategy = router.LeastOutstanding })
			f.byURL(fine).SetPeersInFlight(1) // the troubled one comes first
			got := f.send("POST", chatPath, chat("hello"))
			if retried := status == 429 || status == 503 || status == 529; retried {
				if got.body != whole || f.last(1).Attempts != 2 || f.last(1).Result != feedback.Success {
					t.Errorf("%d: got %d %q", status, got.StatusCode, got.body)
				}
				if s := f.byURL(troubled).State(f.last(1).Start); s != backends.Cooling {
					t.Errorf("%d: the backend is %v", status, s)
				}
			} else if got.StatusCode != status || got.body != "the engine's own words" || got.Header.Get("Retry-After") != after || other.Load() != 0 {
				t.Errorf("%d: got %d %q, %d went elsewhere", status, got.StatusCode, got.body, other.Load())
			}
			f.byURL(fine).SetPeersInFlight(0)
			f.settled(1)

			alone := start(t, []string{troubled})
			got = alone.send("POST", chatPath, chat("hello"))
			if got.StatusCode != status || got.body != "the engine's own words" || got.Header.Get("Retry-After") != after {
				t.Errorf("%d alone: got %d %q, Retry-After %q", status, got.StatusCode, got.body, got.Header.Get("Retry-After"))
			}
			alone.settled(1)
		}
	}
}

// An engine's answer is kept only up to a point; past it the client gets the status
// and the pause in its own dialect.
func TestFO09LongAnswersAreNotKept(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, strings.Repeat("x", 1<<20))
	}
	// The second gives no answer either, so the first answer is what there is.
	busyURL, dead := engine(t, busy), deadURL(t)
	f := start(t, []string{busyURL, dead}, func(s *setup) { s.config.Strategy = router.LeastOutstanding })
	f.byURL(dead).SetPeersInFlight(1)
	got := f.send("POST", chatPath, chat("hello"))
	if kind, code := jsonError(t, got); got.StatusCode != http.StatusTooManyRequests || kind != "rate_limit_error" || code != "rate_limit_exceeded" || got.Header.Get("Retry-After") != "5" {
		t.Errorf("got %d %s, Retry-After %q", got.StatusCode, got.body, got.Header.Get("Retry-After"))
	}
	if r := f.last(1); r.Attempts != 2 || r.Result != feedback.Saturated {
		t.Errorf("recorded as %v after %d", r.Result, r.Attempts)
	}
	f.byURL(dead).SetPeersInFlight(0)
	f.settled(1)
}

// A backend that sleeps is nobody to try: the answer streams through as it is, however
// long.
func TestFO09OthersAsleep(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	busy := engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, long)
	})
	asleep := deadURL(t)
	f := start(t, []string{busy, asleep})
	f.byURL(asleep).SetAsleep(true)
	if got := f.send("POST", chatPath, chat("hello")); got.StatusCode != http.StatusTooManyRequests || got.body != long {
		t.Errorf("got %d and %d bytes", got.StatusCode, len(got.body))
	}
	if r := f.last(1); r.Attempts != 1 {
		t.Errorf("%d attempts", r.Attempts)
	}
	f.settled(1)
}

func TestRB09Saturation(t *testing.T) {
	hold := newGate(t)
	arrived := make(chan struct{}, 8)
	h := func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-hold
		writeWhole(w)
	}
	for _, on := range []router.OnSaturation{router.Reject, router.LeastLoaded} {
		t.Run(string(on), func(t *testing.T) {
			hold = newGate(t)
			f := start(t, []string{engine(t, h), engine(t, h)}, func(s *setup) {
				s.config.ConcurrencyThreshold, s.config.OnSaturation = 1, on
			})
			var senders sync.WaitGroup
			for range 2 {
				senders.Go(func() { f.send("POST", chatPath, chat("hold")) })
				<-arrived
			}
			if on == router.LeastLoaded {
				senders.Go(func() { f.send("POST", chatPath, chat("third")) })
				<-arrived
				hold.open()
				senders.Wait()
				f.settled(3)
				return
			}
			got := f.send("POST", chatPath, chat("third"))
			kind, code := jsonError(t, got)
			if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" || kind != "rate_limit_error" || code != "rate_limit_exceeded" {
				t.Errorf("got %d %s", got.StatusCode, got.body)
			}
			if r := f.last(1); r.Result != feedback.Saturated || r.Attempts != 0 {
				t.Errorf("recorded as %v", r.Result)
			}
			hold.open()
			senders.Wait()
			f.settled(3)
		})
	}
}

func TestRB09NobodyCanServe(t *testing.T) {
	urls, _ := echoes(t, 2)
	for name, break_ := range map[string]func(f *fleet){
		"no healthy backend": func(f *fleet) {
			for _, b := range f.pool.Backends() {
				b.SetUnreachable(true)
			}
		},
		"draining": func(f *fleet) {
			for _, b := range f.pool.Backends() {
				b.Drain(true)
			}
		},
		"scaled to zero": func(f *fleet) { f.pool.SetBackends(nil) },
	} {
		f := start(t, urls)
		break_(f)
		got := f.send("POST", chatPath, chat("hello"))
		if _, code := jsonError(t, got); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || code != "no_backend" {
			t.Errorf("%s: got %d %s", name, got.StatusCode, got.body)
		}
		if r := f.last(1); r.Result != feedback.NoBackend {
			t.Errorf("%s: recorded as %v", name, r.Result)
		}
		a := f.send("POST", "/v1/messages", chat("hello"))
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, `"overloaded_error"`) {
			t.Errorf("%s: Anthropic got %d %s", name, a.StatusCode, a.body)
		}
		f.settled(2)
	}
}

// Retries stay within their share of the traffic.
func TestRetriesAreBounded(t *testing.T) {
	var calls atomic.Int32
	busy := func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	urls := []string{engine(t, busy), engine(t, busy), engine(t, busy)}
	now := time.Now()
	f := start(t, urls, func(s *setup) { s.options.Now = func() time.Time { return now } })
	const n = 100
	for range n {
		f.send("POST", chatPath, chat("x"))
	}
	if extra := int(calls.Load()) - n; extra > n/5 || extra < 10 {
		t.Errorf("%d retries for %d requests", extra, n)
	}
	f.settled(n)
}

func TestPins(t *testing.T) {
	urls, got := echoes(t, 3)
	closed := start(t, urls)
	a := closed.send("POST", chatPath, chat("hello"), "X-Warmroute-Backend", closed.pool.Backends()[0].ID)
	if jsonError(t, a); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "allow_backend_pin") {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	f := start(t, urls, pinned)
	for _, b := range f.pool.Backends() {
		a := f.send("POST", chatPath, chat("hello"), "X-Warmroute-Backend", b.ID)
		if a.Header.Get("X-Warmroute-Backend") != b.ID || a.Header.Get("X-Warmroute-Reason") != "pinned" {
			t.Errorf("pinned to %s, served by %s", b.ID, a.Header.Get("X-Warmroute-Backend"))
		}
		if h := got.last().header; h.Get("X-Warmroute-Backend") != "" {
			t.Error("the pin went on to the engine")
		}
	}
	a = f.send("POST", chatPath, chat("hello"), "X-Warmroute-Backend", "nobody:1")
	if a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("unknown pin: got %d %s", a.StatusCode, a.body)
	}
	f.settled(4)
}

// ML-08: bodies of failed attempts are read or closed: no connection is left behind.
func TestML08FailedAttemptsLeaveNothing(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, strings.Repeat("x", 100<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	fine := engine(t, func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) })
	var now atomic.Int64
	f := start(t, []string{server.URL, fine}, func(s *setup) {
		s.config.Strategy = router.LeastOutstanding
		// A minute passes with every look at the clock, so that neither cooling nor
		// the retry budget keeps requests away from the troubled engine.
		s.options.Now = func() time.Time { return time.Unix(now.Add(60), 0) }
	})
	f.byURL(fine).SetPeersInFlight(1)
	const n = 500
	for i := range n {
		wantOK(t, f.send("POST", chatPath, chat("hello")))
		if r := f.last(i + 1); r.Attempts != 2 {
			t.Fatalf("request %d: %d attempts", i, r.Attempts)
		}
	}
	if c := conns.Load(); c > 5 {
		t.Errorf("%d connections for %d failed attempts", c, n)
	}
	f.byURL(fine).SetPeersInFlight(0)
	f.settled(n)
}

func TestML05ConnectionsAreReused(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	f := start(t, []string{server.URL}, func(s *setup) { s.config.ConcurrencyThreshold = 1024 })
	f.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	const senders, each = 50, 60
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range each {
				if got := f.send("POST", chatPath, chat("hello")); got.StatusCode != http.StatusOK {
					t.Errorf("got %d %s", got.StatusCode, got.body)
				}
			}
		})
	}
	all.Wait()
	if c := int(conns.Load()); c > senders*each/20 {
		t.Errorf("%d connections for %d requests", c, senders*each)
	}
	f.settled(senders * each)
}

// ML-02: whatever becomes of requests, nothing stays counted, and no count is ever
// negative.
func TestML02NothingStaysCounted(t *testing.T) {
	var leavers sync.Map // X-Request-Id → what lets that client leave
	var mixed http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		body := readAll(r)
		switch {
		case strings.Contains(body, "do reset first"):
			reset(w)
		case strings.Contains(body, "do reset later"):
			startEvents(w)
			events(w, delta)
			reset(w)
		case strings.Contains(body, "do hang"):
			if leave, ok := leavers.Load(r.Header.Get("X-Request-Id")); ok {
				leave.(context.CancelFunc)()
			}
			<-r.Context().Done()
		case strings.Contains(body, "do stream"):
			startEvents(w)
			for range 1000 {
				if _, err := io.WriteString(w, delta); err != nil || r.Context().Err() != nil {
					return
				}
				flush(w)
			}
			events(w, done)
		case strings.Contains(body, "do busy"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(body, "do refuse"):
			w.WriteHeader(http.StatusBadRequest)
		default:
			writeWhole(w)
		}
	}
	var panics atomic.Int32
	var f *fleet
	negative := func() {
		for _, b := range f.pool.Backends() {
			if b.InFlight() < 0 {
				t.Errorf("backend %s has %d in flight", b.ID, b.InFlight())
			}
		}
	}
	f = start(t, []string{engine(t, mixed), engine(t, mixed), engine(t, mixed), deadURL(t)}, func(s *setup) {
		s.transport.FirstByte = 20 * time.Millisecond
		s.hooks.Decided = func(*router.Decision) { negative() }
		s.hooks.Completed = func(_ *router.Decision, o feedback.Outcome) {
			negative()
			if o.Status == http.StatusBadRequest && panics.Add(1)%2 == 0 {
				panic("a hook fails")
			}
		}
	})
	kinds := []string{"success", "do reset first", "do reset later", "do hang", "do stream", "do leave", "do leave early", "do busy", "do refuse"}
	const n = 2000
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				kind := kinds[i%len(kinds)]
				body := chat(kind + " " + story(strconv.Itoa(i%7), 2000))
				ctx, leave := context.WithCancel(t.Context())
				if slices.Contains([]string{"do stream", "do leave", "do reset later"}, kind) {
					body = chat(strings.Replace(kind, "leave", "stream", 1), streaming)
				}
				id := strconv.Itoa(i)
				if kind == "do leave early" {
					body = chat("do hang")
					leavers.Store(id, leave)
				}
				resp, err := f.client.Do(f.request(ctx, "POST", chatPath, strings.NewReader(body), "X-Request-Id", id))
				if err == nil {
					if kind == "do leave" {
						io.CopyN(io.Discard, resp.Body, 100)
						leave()
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				leave()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	f.settled(n)
	counts := map[string]int{}
	for _, r := range f.await(n) {
		counts[r.Result.String()]++
	}
	t.Logf("%v", counts)
}

// An engine that begins every stream and ends it with an error of its own is no healthy one: it
// would look idle, since its streams are short, and draw all requests. What it says of a
// request that makes no sense is an answer, as with a status of 400.
func TestErrorsInStreamsAreStrikes(t *testing.T) {
	for name, test := range map[string]struct {
		says  string
		state backends.State
	}{
		"its own":        {`data: {"error":{"message":"x","type":"InternalServerError","code":500}}` + "\n\n", backends.Ejected},
		"of the request": {`data: {"error":{"message":"x","type":"BadRequestError","code":400}}` + "\n\n", backends.Up},
		"unsaid":         {`data: {"error":{"message":"x"}}` + "\n\n", backends.Up},
	} {
		t.Run(name, func(t *testing.T) {
			bad := engine(t, func(w http.ResponseWriter, _ *http.Request) {
				startEvents(w)
				events(w, delta, test.says, done)
			})
			f := start(t, []string{bad, engine(t, func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) })}, pinned)
			sick := f.byURL(bad)
			for range 3 {
				if got := f.send("POST", chatPath, chat("hello", streaming), "X-Warmroute-Backend", sick.ID); !strings.Contains(got.body, `"error"`) {
					t.Fatalf("got %q", got.body)
				}
			}
			if got := sick.State(time.Now()); got != test.state {
				t.Errorf("after three such streams it is %v, want %v", got, test.state)
			}
			f.settled(3)
		})
	}
}
