package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// raw sends bytes as they are and returns what comes back, up to the end.
func (f *fleet) raw(hangUp bool, format string, args ...any) string {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, format, args...)
	if hangUp {
		return ""
	}
	all, _ := io.ReadAll(conn)
	return string(all)
}

func TestUploadsThatBreakOff(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	f.raw(true, head+"Content-Length: 1000\r\n\r\n{")
	if r := f.last(1); r.Result != feedback.ClientClosed || r.Status != 499 || r.RequestBytes != 1 {
		t.Errorf("recorded as %v, status %d, %d bytes", r.Result, r.Status, r.RequestBytes)
	}
	f.raw(true, head+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod")
	if r := f.last(2); r.Result != feedback.ClientClosed {
		t.Errorf("recorded as %v", r.Result)
	}
	if text := f.raw(false, head+"Transfer-Encoding: chunked\r\n\r\nzz\r\n"); !strings.HasPrefix(text, "HTTP/1.1 400") || !strings.Contains(text, `"error"`) {
		t.Errorf("got %s", text)
	}
	if r := f.last(3); r.Result != feedback.Rejected {
		t.Errorf("recorded as %v", r.Result)
	}
	if got.count() != 0 {
		t.Error("an engine was asked")
	}
	f.settled(3)
}

// A client that waits to be told to go on is told at once that its body is too large.
func TestTooLargeBodyIsNotWaitedFor(t *testing.T) {
	urls, _ := echoes(t, 1)
	f := start(t, urls, func(s *setup) { s.options.Limits.BodyBytes = 1000 })
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", chatPath)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "limits.body_bytes") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	f.settled(1)
}

func TestZstdWindow(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	var b strings.Builder
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // written in pieces, so that the frame cannot be a single segment
		io.WriteString(w, strings.Repeat(story("window", 1000), 1000))
	}
	w.Close()
	a := f.send("POST", chatPath, b.String(), "Content-Encoding", "zstd")
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "window") {
		t.Errorf("got %d %s", a.StatusCode, printed(a.body))
	}
	if got.count() != 0 {
		t.Error("an engine was asked")
	}
	f.settled(1)
}

func TestFormsCannotUseAliases(t *testing.T) {
	urls, _ := echoes(t, 1)
	f := start(t, urls)
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nalias-of-m\r\n--b--\r\n"
	a := f.send("POST", "/v1/audio/translations", form, "Content-Type", "multipart/form-data; boundary=b")
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `\"served\"`) {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	f.settled(1)
}

// A fault before anything was sent is told in the dialect.
func TestPanicBeforeTheAnswer(t *testing.T) {
	urls, _ := echoes(t, 1)
	fail := true
	f := start(t, urls, func(s *setup) {
		s.options.Random = func() uint64 {
			if fail {
				panic("no randomness")
			}
			return 4
		}
	})
	a := f.send("POST", chatPath, chat("x"), "X-Request-Id", "mine")
	if _, code := jsonError(t, a); a.StatusCode != http.StatusInternalServerError || code != "internal_error" || a.Header.Get("X-Request-Id") != "mine" {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	if r := f.last(1); r.Result != feedback.RouterError || r.Status != http.StatusInternalServerError {
		t.Errorf("recorded as %v, status %d", r.Result, r.Status)
	}
	if strings.Count(f.log.String(), "panic while serving") != 1 {
		t.Errorf("logged: %s", f.log)
	}
	fail = false
	wantOK(t, f.send("POST", chatPath, chat("x")))
	f.settled(2)
}

// bare and wrapped are answers that middleware has put its hands on.
type bare struct{ http.ResponseWriter }

type wrapped struct{ bare }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type flusher struct{ bare }

func (w flusher) Flush() { flush(w.ResponseWriter) }

func TestMiddleware(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"with Unwrap": func(w http.ResponseWriter) http.ResponseWriter { return wrapped{bare{w}} },
		"with Flush":  func(w http.ResponseWriter) http.ResponseWriter { return flusher{bare{w}} },
		"with both":   func(w http.ResponseWriter) http.ResponseWriter { return wrapped{bare{flusher{bare{w}}}} },
		"with none":   func(w http.ResponseWriter) http.ResponseWriter { return bare{w} },
	} {
		t.Run(name, func(t *testing.T) {
			urls, _ := echoes(t, 1)
			f := start(t, urls, func(s *setup) {
				s.wrap = func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
				}
			})
			if a := f.send("POST", chatPath, chat("x", streaming)); a.body != delta+finish+done {
				t.Errorf("got %q", a.body)
			}
			f.settled(1)
		})
	}
}

// A retry that finds no room ends like one that finds nobody: with what was tried.
func TestRetryIntoAFullPool(t *testing.T) {
	hold := newGate(t)
	arrived := make(chan struct{}, 1)
	full := engine(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-hold
		writeWhole(w)
	})
	dead := deadURL(t)
	f := start(t, []string{full, dead}, func(s *setup) {
		s.config.Strategy, s.config.OnSaturation, s.config.ConcurrencyThreshold = router.LeastOutstanding, router.Reject, 1
	})
	f.byURL(dead).Drain(true)
	finished := make(chan answer, 1)
	go func() { finished <- f.send("POST", chatPath, chat("hold")) }()
	<-arrived
	f.byURL(dead).Drain(false)
	a := f.send("POST", chatPath, chat("x"))
	if jsonError(t, a); a.StatusCode != http.StatusBadGateway || !strings.Contains(a.body, "no connection") {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	hold.open()
	wantOK(t, <-finished)
	f.settled(2)
}
