package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/memhttp"
	"github.com/warmroute/warmroute/router"
)

// virtual runs a test in virtual time, over a network in memory. engines are
// scripted; the fleet's router is at router:80.
func virtual(t *testing.T, engines map[string]http.HandlerFunc, change func(*setup), test func(t *testing.T, f *fleet)) {
	t.Helper()
	onNetwork(t, engines, change, func(t *testing.T, f *fleet, _ *memhttp.Network) { test(t, f) })
}

// onNetwork is virtual for tests that need the network itself.
func onNetwork(t *testing.T, engines map[string]http.HandlerFunc, change func(*setup), test func(t *testing.T, f *fleet, network *memhttp.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := memhttp.NewNetwork()
		var urls []string
		for addr, h := range engines {
			s, err := network.Serve(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				readAll(r) // net/http sees a client leave only once the body was read
				h(w, r)
			}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			urls = append(urls, s.URL())
		}
		p := prepare(t, urls, func(s *setup) {
			s.transport.DialContext = network.DialContext
			if change != nil {
				change(s)
			}
		})
		s, err := network.Serve("router:80", p.handler)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		p.url, p.client = s.URL(), network.Client()
		test(t, p.fleet, network)
	})
}

func TestPS08LongStream(t *testing.T) {
	const tokens = 150
	engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		for range tokens {
			time.Sleep(time.Second)
			events(w, delta)
		}
		events(w, done)
	}}
	virtual(t, engines, nil, func(t *testing.T, f *fleet) {
		start := time.Now()
		got := f.send("POST", chatPath, chat("hello", streaming))
		if got.err != nil || !strings.HasSuffix(got.body, done) || strings.Count(got.body, delta) != tokens {
			t.Errorf("got %d bytes, %v", len(got.body), got.err)
		}
		if took := time.Since(start); took != tokens*time.Second {
			t.Errorf("took %v", took)
		}
		if r := f.last(1); r.TTFT != time.Second || r.Duration != tokens*time.Second {
			t.Errorf("TTFT %v, duration %v", r.TTFT, r.Duration)
		}
		f.settled(1)
	})
}

func TestPS09SlowHeaders(t *testing.T) {
	slow := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(95 * time.Second):
			writeWhole(w)
		case <-r.Context().Done():
		}
	}}
	t.Run("by default", func(t *testing.T) {
		virtual(t, slow, nil, func(t *testing.T, f *fleet) {
			got := f.send("POST", chatPath, chat("hello"))
			if got.StatusCode != http.StatusOK || got.body != whole {
				t.Errorf("got %d %s", got.StatusCode, got.body)
			}
			f.settled(1)
		})
	})
	t.Run("beyond timeouts.first_byte", func(t *testing.T) {
		virtual(t, slow, func(s *setup) { s.transport.FirstByte = 30 * time.Second }, func(t *testing.T, f *fleet) {
			start := time.Now()
			got := f.send("POST", chatPath, chat("hello"))
			if _, code := jsonError(t, got); got.StatusCode != http.StatusGatewayTimeout || code != "upstream_timeout" || !strings.Contains(got.body, "timeouts.first_byte") {
				t.Errorf("got %d %s", got.StatusCode, got.body)
			}
			if took := time.Since(start); took != 30*time.Second {
				t.Errorf("took %v", took)
			}
			if r := f.last(1); r.Result != feedback.Timeout || r.Attempts != 1 {
				t.Errorf("recorded as %v after %d", r.Result, r.Attempts)
			}
			f.settled(1)
		})
	})
}

// An answer that pauses for longer than timeouts.idle is one that broke off.
func TestIdleStream(t *testing.T) {
	engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		events(w, delta)
		<-r.Context().Done()
	}}
	virtual(t, engines, func(s *setup) { s.transport.Idle = 10 * time.Second }, func(t *testing.T, f *fleet) {
		start := time.Now()
		got := f.send("POST", chatPath, chat("hello", streaming))
		if rest, ok := strings.CutPrefix(got.body, delta); got.err == nil || !ok || !strings.Contains(rest, "timeouts.idle") {
			t.Errorf("got %q, %v", got.body, got.err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		if r := f.last(1); r.Result != feedback.UpstreamAborted {
			t.Errorf("recorded as %v", r.Result)
		}
		f.settled(1)
	})
}

// FO-08: an address that swallows packets costs no more than timeouts.connect.
func TestFO08BlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memhttp.NewNetwork()
		hole, err := network.Listen("hole:8000")
		if err != nil {
			t.Fatal(err)
		}
		defer hole.Close()
		s, err := network.Serve("b1:8000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeWhole(w) }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		p := prepare(t, []string{"http://hole:8000", s.URL()}, func(s *setup) {
			s.transport.DialContext = network.DialContext
			s.config.Strategy = router.LeastOutstanding
		})
		front, err := network.Serve("router:80", p.handler)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { front.Close() })
		p.url, p.client = front.URL(), network.Client()
		p.byURL("http://b1:8000").SetPeersInFlight(1)
		start := time.Now()
		wantOK(t, p.send("POST", chatPath, chat("hello")))
		if took := time.Since(start); took != 3*time.Second || p.last(1).Attempts != 2 {
			t.Errorf("took %v and %d attempts", took, p.last(1).Attempts)
		}
		p.byURL("http://b1:8000").SetPeersInFlight(0)
		p.settled(1)
	})
}

// queueing lets requests wait for the one slot there is.
func queueing(s *setup) {
	s.config.OnSaturation, s.config.ConcurrencyThreshold = router.Queue, 1
	s.options.QueueWait = 5 * time.Second
	s.options.Limits.MaxQueued = 3
}

// slowEngines have one engine that takes a while for everything.
func slowEngines(each time.Duration) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(each):
			writeWhole(w)
		case <-r.Context().Done():
		}
	}}
}

func TestQueueFirstComeFirstServed(t *testing.T) {
	virtual(t, slowEngines(time.Second), queueing, func(t *testing.T, f *fleet) {
		order := make(chan int, 4)
		for i := range 4 {
			go func() {
				wantOKAsync(t, f.send("POST", chatPath, chat("hello")))
				order <- i
			}()
			synctest.Wait()
		}
		start := time.Now()
		for want := range 4 {
			if got := <-order; got != want {
				t.Errorf("request %d was served in place %d", got, want)
			}
			if took := time.Since(start); took != time.Duration(want+1)*time.Second {
				t.Errorf("place %d after %v", want, took)
			}
		}
		synctest.Wait()
		f.settled(4)
	})
}

func wantOKAsync(t *testing.T, a answer) {
	if a.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
}

func TestQueueIsBounded(t *testing.T) {
	virtual(t, slowEngines(time.Minute), queueing, func(t *testing.T, f *fleet) {
		type late struct {
			answer
			after time.Duration
		}
		start := time.Now()
		answers := make(chan late, 8)
		for range 5 { // one is served, three wait, one finds the line full
			go func() { answers <- late{f.send("POST", chatPath, chat("hello")), time.Since(start)} }()
			synctest.Wait()
		}
		for i := range 4 {
			a := <-answers
			setting, after := "timeouts.queue", 5*time.Second
			if i == 0 {
				setting, after = "limits.max_queued", 0
			}
			kind, _ := jsonError(t, a.answer)
			if a.StatusCode != http.StatusTooManyRequests || kind != "rate_limit_error" || !strings.Contains(a.body, setting) || a.Header.Get("Retry-After") == "" || a.after != after {
				t.Errorf("answer %d after %v: %d %s", i, a.after, a.StatusCode, a.body)
			}
		}
		if a := <-answers; a.StatusCode != http.StatusOK {
			t.Errorf("got %d %s", a.StatusCode, a.body)
		}
		synctest.Wait()
		f.settled(5)
	})
}

// A client that leaves the line gives its place up; nobody behind it waits longer.
func TestQueueClientLeaves(t *testing.T) {
	virtual(t, slowEngines(2*time.Second), queueing, func(t *testing.T, f *fleet) {
		first := make(chan struct{})
		go func() {
			wantOKAsync(t, f.send("POST", chatPath, chat("first")))
			close(first)
		}()
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		gone := make(chan error, 1)
		go func() {
			resp, err := f.client.Do(f.request(ctx, "POST", chatPath, strings.NewReader(chat("second"))))
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			gone <- err
		}()
		synctest.Wait()
		start := time.Now()
		wantOK(t, f.send("POST", chatPath, chat("third")))
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("the third took %v", took)
		}
		<-first
		if err := <-gone; err == nil {
			t.Error("the second had an answer")
		}
		synctest.Wait()
		f.settled(3)
		if r := f.last(1); r.Result != feedback.ClientClosed || r.Attempts != 0 {
			t.Errorf("recorded as %v after %d", r.Result, r.Attempts)
		}
	})
}

// A client that stops in the middle of its body is told so, and holds nothing.
func TestUploadThatStalls(t *testing.T) {
	virtual(t, slowEngines(time.Second), nil, func(t *testing.T, f *fleet) {
		body, writer := io.Pipe()
		go writer.Write([]byte(`{"model":`))
		start := time.Now()
		got := f.do(f.request(t.Context(), "POST", chatPath, body))
		writer.Close()
		if jsonError(t, got); got.StatusCode != http.StatusRequestTimeout || time.Since(start) != time.Minute {
			t.Errorf("got %d %s after %v", got.StatusCode, got.body, time.Since(start))
		}
		synctest.Wait()
		f.settled(1)
	})
}

// A client that stops taking its answer loses it, and the engine is let go.
func TestAnswerThatNobodyTakes(t *testing.T) {
	var left chan time.Time // made inside the bubble
	engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, delta); err != nil {
				break
			}
			flush(w)
		}
		left <- time.Now()
	}}
	virtual(t, engines, nil, func(t *testing.T, f *fleet) {
		left = make(chan time.Time, 1)
		start := time.Now()
		resp, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("hello", streaming))))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if took := (<-left).Sub(start); took != 5*time.Minute {
			t.Errorf("the engine was let go after %v", took)
		}
		synctest.Wait()
		if r := f.last(1); r.Result != feedback.ClientClosed {
			t.Errorf("recorded as %v", r.Result)
		}
		f.settled(1)
	})
}

// An engine whose client takes nothing is not silent; one that sends nothing is.
func TestSilenceIsTheEngines(t *testing.T) {
	for _, c := range []struct {
		name   string
		events int // that the engine sends
		silent time.Duration
	}{
		{"the client takes nothing", 1 << 20, 0},
		{"the engine sends nothing", 1, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
				startEvents(w)
				for range c.events {
					if _, err := io.WriteString(w, delta); err != nil {
						return
					}
					flush(w)
				}
				<-r.Context().Done()
			}}
			virtual(t, engines, nil, func(t *testing.T, f *fleet) {
				resp, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("hello", streaming))))
				if err != nil {
					t.Fatal(err)
				}
				if c.silent > 0 {
					go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				b := f.pool.Backends()[0]
				if silent := b.Silent(time.Now()); silent != c.silent {
					t.Errorf("silent for %v, want %v", silent, c.silent)
				}
				resp.Body.Close()
				synctest.Wait()
				if silent := b.Silent(time.Now().Add(time.Hour)); silent != 0 {
					t.Errorf("silent for %v after the answer's end", silent)
				}
				f.settled(1)
			})
		})
	}
}

// The limits end with the exchange they are for: a connection that rests for longer
// between two requests, or an answer that takes longer, is not touched.
func TestStallLimitsEnd(t *testing.T) {
	virtual(t, slowEngines(20*time.Minute-time.Second), nil, func(t *testing.T, f *fleet) {
		f.client.Transport.(*http.Transport).DisableKeepAlives = false
		defer f.client.CloseIdleConnections()
		for range 2 {
			wantOK(t, f.send("POST", chatPath, chat("hello")))
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait()
		f.settled(2)
	})
}

// A request without a body has nothing to pause with: its answer may take longer than an
// upload may pause.
func TestLongAnswerToARequestWithoutBody(t *testing.T) {
	engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(95 * time.Second):
			writeWhole(w)
		case <-r.Context().Done():
		}
	}}
	virtual(t, engines, nil, func(t *testing.T, f *fleet) {
		if got := f.send("GET", "/v1/responses/resp_1", ""); got.err != nil || got.StatusCode != http.StatusOK {
			t.Errorf("got %d %q, %v", got.StatusCode, got.body, got.err)
		}
		if r := f.last(1); r.Duration != 95*time.Second {
			t.Errorf("%v after %v: %s", r.Result, r.Duration, r.Err)
		}
		f.settled(1)
	})
}

// The limit on what a client does not take is none on what an engine does not send, over
// HTTP/2 either, where a deadline that passes ends a stream that nobody writes to.
func TestPausesOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memhttp.NewNetwork()
		s, err := network.Serve("b1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			readAll(r)
			startEvents(w)
			for _, pause := range []time.Duration{0, 149 * time.Second, 200 * time.Second, 299 * time.Second} {
				select {
				case <-time.After(pause):
					events(w, delta)
				case <-r.Context().Done():
					return
				}
			}
			events(w, done)
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		p := prepare(t, []string{s.URL()}, func(s *setup) { s.transport.DialContext = network.DialContext })
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		front, err := network.Start("router:80", &http.Server{Handler: p.handler, Protocols: protocols})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { front.Close() })
		carrier := &http.Transport{DialContext: network.DialContext, Protocols: protocols}
		t.Cleanup(carrier.CloseIdleConnections)
		p.url, p.client = front.URL(), &http.Client{Transport: carrier}
		got := p.send("POST", chatPath, chat("hello", streaming))
		if got.ProtoMajor != 2 || got.err != nil || strings.Count(got.body, delta) != 4 || !strings.HasSuffix(got.body, done) {
			t.Errorf("got %v, %q, %v", got.Proto, got.body, got.err)
		}
		if r := p.last(1); r.Result != feedback.Success {
			t.Errorf("%v after %v: %s", r.Result, r.Duration, r.Err)
		}
	})
}

// announce opens a connection to the router and sends a request that promises size
// bytes of body, of which it sends begin. The connection closes with the test.
func announce(t *testing.T, network *memhttp.Network, size int, begin string, headers ...string) net.Conn {
	t.Helper()
	conn, err := network.DialContext(t.Context(), "tcp", "router:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	head := strings.Join(append(headers, "Host: x", "Connection: close"), "\r\n")
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\n%s\r\nContent-Length: %d\r\n\r\n%s", chatPath, head, size, begin)
	return conn
}

// What uploads announce takes nothing of the budget that others need.
func TestAnnouncedBodiesHoldNothing(t *testing.T) {
	const limit = 1 << 20
	small := func(s *setup) { s.options.Limits = proxy.Limits{BodyBytes: limit, BodiesInFlightBytes: 2 * limit} }
	onNetwork(t, slowEngines(time.Second), small, func(t *testing.T, f *fleet, network *memhttp.Network) {
		for range 16 {
			announce(t, network, limit, "{")
		}
		synctest.Wait()
		if held := f.proxy.Bodies().Held(); held != 16 {
			t.Errorf("%d bytes held after 16 uploads of one byte each", held)
		}
		wantOK(t, f.send("POST", chatPath, chat("hello")))
	})
}

// A body that trickles without a pause ends all the same.
func TestUploadThatTrickles(t *testing.T) {
	onNetwork(t, slowEngines(time.Second), nil, func(t *testing.T, f *fleet, network *memhttp.Network) {
		conn := announce(t, network, 1<<20, "{")
		start := time.Now()
		go func() { // ends with the connection
			for {
				time.Sleep(25 * time.Second)
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "too slowly") || time.Since(start) != time.Minute {
			t.Errorf("got %d %s after %v", resp.StatusCode, text, time.Since(start))
		}
		conn.Close()
		time.Sleep(time.Minute)
		f.settled(1)
	})
}

// A body at twice the slowest rate may take as long as it needs.
func TestSlowUpload(t *testing.T) {
	virtual(t, slowEngines(time.Second), nil, func(t *testing.T, f *fleet) {
		body, writer := io.Pipe()
		go func() {
			io.WriteString(writer, strings.TrimSuffix(chat("hello"), "}"))
			for range 300 {
				time.Sleep(time.Second)
				io.WriteString(writer, strings.Repeat(" ", 32<<10))
			}
			io.WriteString(writer, "}")
			writer.Close()
		}()
		wantOK(t, f.do(f.request(t.Context(), "POST", chatPath, body)))
		f.settled(1)
	})
}

// A client that has more to send when the budget is used up gets to see why it is
// refused, although it writes before it reads.
func TestBusyIsToldToAClientThatStillSends(t *testing.T) {
	const limit = 1 << 20
	small := func(s *setup) { s.options.Limits = proxy.Limits{BodyBytes: limit, BodiesInFlightBytes: limit} }
	onNetwork(t, slowEngines(time.Second), small, func(t *testing.T, f *fleet, network *memhttp.Network) {
		announce(t, network, limit, strings.Repeat(" ", limit/2))
		synctest.Wait()
		conn := announce(t, network, limit, strings.Repeat(" ", limit))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "limits.bodies_in_flight_bytes") {
			t.Errorf("got %d %s", resp.StatusCode, text)
		}
	})
}

// A compressed body that stops in its first bytes is one that stopped, not one that
// is not compressed.
func TestCompressedUploadThatStalls(t *testing.T) {
	virtual(t, slowEngines(time.Second), nil, func(t *testing.T, f *fleet) {
		body, writer := io.Pipe()
		go writer.Write([]byte("\x1f\x8b"))
		got := f.do(f.request(t.Context(), "POST", chatPath, body, "Content-Encoding", "gzip"))
		writer.Close()
		if jsonError(t, got); got.StatusCode != http.StatusRequestTimeout {
			t.Errorf("got %d %s", got.StatusCode, got.body)
		}
		synctest.Wait()
		f.settled(1)
	})
	onNetwork(t, slowEngines(time.Second), nil, func(t *testing.T, f *fleet, network *memhttp.Network) {
		announce(t, network, 1000, "\x1f\x8b", "Content-Encoding: gzip").Close()
		if r := f.last(1); r.Result != feedback.ClientClosed || r.Status != 499 {
			t.Errorf("recorded as %v, status %d", r.Result, r.Status)
		}
		f.settled(1)
	})
}

// A refusal whose body hangs is waited for a second, not for timeouts.idle, before the
// request is sent without the wish for usage.
func TestRefusalThatHangs(t *testing.T) {
	for text, status := range map[string]int{"stream_options": http.StatusOK, "context length": http.StatusBadRequest} {
		engines := map[string]http.HandlerFunc{"b1:8000": func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == int64(len(chat("hello", streaming))) {
				startEvents(w)
				events(w, delta, finish, done)
				return
			}
			w.Header().Set("Content-Length", "500")
			w.WriteHeader(http.StatusBadRequest)
			events(w, text)
			<-r.Context().Done()
		}}
		virtual(t, engines, nil, func(t *testing.T, f *fleet) {
			start := time.Now()
			got := f.send("POST", chatPath, chat("hello", streaming))
			if got.StatusCode != status || time.Since(start) != time.Second || (got.err == nil) != (status == http.StatusOK) {
				t.Errorf("%s: got %d %s, %v after %v", text, got.StatusCode, got.body, got.err, time.Since(start))
			}
			if r := f.last(1); status != http.StatusOK && r.Result != feedback.UpstreamAborted {
				t.Errorf("recorded as %v", r.Result)
			}
			f.settled(1)
		})
	}
}
