package proxy

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestNewNamesWhatIsWrong(t *testing.T) {
	r, c := router.New(router.Options{}), transport.New(transport.Config{})
	t.Cleanup(c.Close)
	for want, o := range map[string]Options{
		"router":                        {Transport: c},
		"transport":                     {Router: r},
		"limits.body_bytes":             {Router: r, Transport: c, Limits: Limits{BodyBytes: -1}},
		"limits.bodies_in_flight_bytes": {Router: r, Transport: c, Limits: Limits{BodiesInFlightBytes: 1}},
		"limits.max_queued":             {Router: r, Transport: c, Limits: Limits{MaxQueued: -1}},
		"timeouts.queue":                {Router: r, Transport: c, QueueWait: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error about %s", err, want)
		}
	}
	if _, err := New(Options{Router: r, Transport: c}); err != nil {
		t.Error(err)
	}
}

// openPayload returns an empty body that holds its share of a budget.
func openPayload(budget *intake.Budget) *payload {
	b := new(payload)
	b.Open(budget)
	return b
}

func TestReadAll(t *testing.T) {
	const limit = 100_000
	for _, length := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, limit - 1, limit, limit + 1, 3 * limit} {
		for _, known := range []bool{true, false} {
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.DataErrReader, iotest.HalfReader,
			} {
				budget := intake.NewBudget(10 * limit)
				b := openPayload(budget)
				size := int64(-1)
				if known {
					size = int64(length)
				}
				text := strings.Repeat("x", length)
				var err error
				if size > limit { // refused before it is read
					err = errTooLarge
				} else {
					err = b.readAll(wrap(strings.NewReader(text)), size, limit)
				}
				switch {
				case length > limit:
					if !errors.Is(err, errTooLarge) {
						t.Errorf("%d bytes: %v", length, err)
					}
				case err != nil || string(b.bytes) != text:
					t.Errorf("%d bytes: read %d, %v", length, len(b.bytes), err)
				case budget.Held() != int64(length):
					t.Errorf("%d bytes: %d are held", length, budget.Held())
				}
				b.release()
				b.release()
				if held := budget.Held(); held != 0 {
					t.Errorf("%d bytes: %d are held after release", length, held)
				}
			}
		}
	}
}

func TestReadAllWithoutRoom(t *testing.T) {
	budget := intake.NewBudget(100)
	for _, size := range []int64{101, -1} {
		b := openPayload(budget)
		if err := b.readAll(strings.NewReader(strings.Repeat("x", 101)), size, 1000); !errors.Is(err, errBusy) {
			t.Errorf("size %d: %v", size, err)
		}
		b.release()
		if held := budget.Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	}
}

// Who wants no limit writes the largest number there is.
func TestReadAllWithoutLimit(t *testing.T) {
	text := strings.Repeat("x", 3*firstRead)
	budget := intake.NewBudget(math.MaxInt64)
	b := openPayload(budget)
	defer b.release()
	if err := b.readAll(strings.NewReader(text), -1, math.MaxInt64); err != nil || string(b.bytes) != text {
		t.Errorf("read %d bytes, %v", len(b.bytes), err)
	}
}

func TestReadAllFails(t *testing.T) {
	budget := intake.NewBudget(100)
	b := openPayload(budget)
	if err := b.readAll(iotest.ErrReader(io.ErrUnexpectedEOF), 50, 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	b.release()
}

func TestTraceID(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for header, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01":                  id,
		"cc-" + id + "-00f067aa0ba902b7-01-more":             id,
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01": "",
		"00-" + id + "-00f067aa0ba902b7":                     "",
		"00_" + id + "-00f067aa0ba902b7-01":                  "",
		"":                                                   "",
	} {
		if got := traceID(header); got != want {
			t.Errorf("traceID(%q) = %q", header, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "NaN": 0, "7": 7 * time.Second, "0.5": time.Second / 2, "1e300": 24 * time.Hour, "+Inf": 24 * time.Hour,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0, "soon": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", value, got, want)
		}
	}
}

func TestBetweenEvents(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "\n\n": true, "data: x\n\n": true, "data: x\r\n\r\n": true, "data: x\r\r": true,
		"data: x": false, "data: x\n": false, "data: x\r\n": false, "\n": false,
	} {
		for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
			w := newReply(httptest.NewRecorder())
			for _, p := range pieces {
				io.WriteString(&w, p)
			}
			if got := w.betweenEvents(); got != want {
				t.Errorf("%q in %d pieces: %v", text, len(pieces), got)
			}
		}
	}
}

func TestRemoveHopByHop(t *testing.T) {
	h := http.Header{
		"Connection": {"close, x-one", " X-Two ,,"}, "X-One": {"1"}, "X-Two": {"2"}, "X-Three": {"3"}, "Trailer": {"X"},
	}
	removeHopByHop(h)
	if len(h) != 1 || h.Get("X-Three") != "3" {
		t.Errorf("left: %v", h)
	}
}

func TestErrorResults(t *testing.T) {
	for code, want := range map[Code]feedback.Result{
		CodeInvalidRequest: feedback.Rejected, CodeModelNotFound: feedback.NotFound, CodeNotFound: feedback.NotFound,
		CodeMethodNotAllowed: feedback.Rejected, CodeBodyTooLarge: feedback.Rejected, CodeUnsupportedEncoding: feedback.Rejected,
		CodeNotImplemented: feedback.Rejected, CodeNotReady: feedback.NoBackend, CodeSaturated: feedback.Saturated,
		CodeBusy: feedback.Saturated, CodeNoBackend: feedback.NoBackend, CodeUnavailable: feedback.Unavailable,
		CodeTimeout: feedback.Timeout, CodeBroken: feedback.UpstreamAborted, CodeInternal: feedback.RouterError,
	} {
		if got := (&Error{Code: code}).result(); got != want {
			t.Errorf("%s is recorded as %v, want %v", code, got, want)
		}
	}
}

func TestErrorHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	(&Error{Status: 503, RetryAfter: 1500 * time.Millisecond, Allow: []string{"GET", "PUT"}}).WriteJSON(w, map[string]int{"a": 1})
	if h := w.Header(); w.Code != 503 || h.Get("Retry-After") != "2" || h.Get("Allow") != "GET, PUT" || w.Body.String() != `{"a":1}` || h.Get("Content-Length") != "7" {
		t.Errorf("got %d %v %s", w.Code, h, w.Body)
	}
}

func TestIsEvents(t *testing.T) {
	for contentType, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/event-stream; broken=": true,
		"application/json": false, "": false,
	} {
		if got := isEvents(http.Header{"Content-Type": {contentType}}); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}

// Of bodies whose senders are not known before their end only so much is kept at a time, and
// others do not wait for that.
func TestUnverifiedBodiesAreBounded(t *testing.T) {
	p := &Proxy{bodies: intake.NewBudget(1000), unverified: intake.NewBudget(100), options: Options{Limits: Limits{BodyBytes: 1000}, Now: time.Now}}
	send := func(unverified bool, size int) (*exchange, *Error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
		w := httptest.NewRecorder()
		x := &exchange{p: p, call: &Call{}, w: newReply(w), r: r, record: new(feedback.Record), stall: newStall(w, r)}
		x.visitor = Visitor{Unverified: unverified, Check: func() *Error { return nil }}
		return x, x.readBody()
	}
	first, err := send(true, 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(true, 50); err == nil || err.Status != http.StatusServiceUnavailable || err.Code != CodeBusy {
		t.Errorf("a second of those: %v", err)
	}
	known, err := send(false, 500)
	if err != nil {
		t.Errorf("of somebody who is known: %v", err)
	}
	if err := first.checkVisitor(); err != nil || p.unverified.Held() != 0 {
		t.Errorf("%v, and %d bytes are still unverified", err, p.unverified.Held())
	}
	third, err := send(true, 100)
	if err != nil {
		t.Errorf("after the first was verified: %v", err)
	}
	for _, x := range []*exchange{first, known, third} {
		x.payload.release()
	}
	if p.unverified.Held() != 0 || p.bodies.Held() != 0 {
		t.Errorf("%d and %d bytes are held at the end", p.unverified.Held(), p.bodies.Held())
	}
}
