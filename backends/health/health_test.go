package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/internal/memhttp"
)

// registry returns a registry with these backends.
func registry(t *testing.T, specs ...backends.Spec) *backends.Registry {
	t.Helper()
	r, err := backends.NewRegistry(backends.DefaultEjection())
	if err != nil {
		t.Fatal(err)
	}
	set(t, r, specs...)
	return r
}

func set(t *testing.T, r *backends.Registry, specs ...backends.Spec) {
	t.Helper()
	if _, err := r.Set(specs); err != nil {
		t.Fatal(err)
	}
}

func at(url string) backends.Spec { return backends.Spec{URL: url, Rank: backends.NoRank} }

func ids(b *backends.Backend) string {
	models, known := b.Models()
	if !known {
		return "unknown"
	}
	var all []string
	for _, m := range models {
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

func list(names ...string) string {
	entries := make([]string, len(names))
	for i, n := range names {
		entries[i] = fmt.Sprintf(`{"id":%q,"object":"model"}`, n)
	}
	return `{"object":"list","data":[` + strings.Join(entries, ",") + `]}`
}

// engine is a scriptable engine.
type engine struct {
	mu      sync.Mutex
	answer  string
	status  int
	hang    bool
	asked   []time.Time
	header  http.Header
	current int
	most    int // questions at a time
}

func (e *engine) set(status int, answer string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status, e.answer, e.hang = status, answer, status == 0
}

func (e *engine) questions() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]time.Time(nil), e.asked...)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked = append(e.asked, time.Now())
	e.header = r.Header
	e.current++
	e.most = max(e.most, e.current)
	status, answer, hang := e.status, e.answer, e.hang
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.current--
	}()
	if hang {
		<-r.Context().Done()
		return
	}
	if r.URL.Path != "/v1/models" || r.Method != http.MethodGet {
		status, answer = http.StatusNotFound, ""
	}
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

// told records what the hooks were told.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *told) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *told) hooks() Hooks {
	return Hooks{
		Failed:    func(b *backends.Backend, _ error) { l.add("failed %s", b.ID) },
		Recovered: func(b *backends.Backend) { l.add("recovered %s", b.ID) },
		Changed:   func(b *backends.Backend) { l.add("changed %s: %s", b.ID, ids(b)) },
	}
}

// world is a fleet in virtual time.
type world struct {
	t   *testing.T
	net *memhttp.Network
	get *transport.Transport
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: memhttp.NewNetwork()}
	w.get = transport.New(transport.Config{DialContext: w.net.DialContext})
	t.Cleanup(w.get.Close)
	return w
}

func (w *world) engine(addr string, names ...string) *engine {
	w.t.Helper()
	e := &engine{status: http.StatusOK, answer: list(names...)}
	s, err := w.net.Serve(addr, e)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return e
}

// run runs a poller until the test ends.
func (w *world) run(p *Poller, r *backends.Registry) {
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

func TestListsAreReadAtStartAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", "qwen", "lora-a")
		r := registry(t, at("http://b1:8000"))
		var log told
		w.run(NewPoller(Config{}, w.get, log.hooks()), r)
		synctest.Wait()
		b := r.Find("b1:8000")
		if got := ids(b); got != "qwen lora-a" {
			t.Fatalf("models %q at once, want both", got)
		}

		e.set(500, "")
		time.Sleep(time.Minute)
		if got := ids(b); got != "qwen lora-a" {
			t.Errorf("models %q while the engine fails, want the last good list", got)
		}
		e.set(200, list("qwen"))
		time.Sleep(12 * time.Second)
		if got := ids(b); got != "qwen" {
			t.Errorf("models %q after the engine returned", got)
		}
		time.Sleep(time.Minute)
		want := []string{"changed b1:8000: qwen lora-a", "failed b1:8000", "recovered b1:8000", "changed b1:8000: qwen"}
		if diff := cmp.Diff(want, log.take()); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
		questions := e.questions()
		for i := 1; i < len(questions); i++ {
			if gap := questions[i].Sub(questions[i-1]); gap < 9*time.Second || gap > 11*time.Second {
				t.Errorf("asked after %v, want 9s to 11s", gap)
			}
		}
	})
}

func TestEnginesAreNotAskedInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var specs []backends.Spec
		var engines []*engine
		for i := range 20 {
			addr := fmt.Sprintf("b%d:8000", i)
			engines = append(engines, w.engine(addr, "m"))
			specs = append(specs, at("http://"+addr))
		}
		w.run(NewPoller(Config{}, w.get, Hooks{}), registry(t, specs...))
		time.Sleep(time.Minute)
		times := make(map[time.Duration]bool)
		for _, e := range engines {
			q := e.questions()
			times[q[len(q)-1].Sub(q[0])] = true
		}
		if len(times) < 15 {
			t.Errorf("20 engines were asked at %d different moments", len(times))
		}
	})
}

func TestABaseURLThatHoldsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine("b1:8000", "m")
		r := registry(t, at("http://b1:8000/v1"))
		err := NewPoller(Config{}, w.get, Hooks{}).Once(t.Context(), r.Snapshot())
		if want := "/v1/v1/models answered with status 404: the base URL ends before /v1"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	})
}

func TestHangingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000")
		e.set(0, "")
		other := w.engine("b2:8000", "m")
		r := registry(t, at("http://b1:8000"), at("http://b2:8000"))
		var failure error
		var at time.Time
		start := time.Now()
		p := NewPoller(Config{}, w.get, Hooks{Failed: func(_ *backends.Backend, err error) { failure, at = err, time.Now() }})
		w.run(p, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := at.Sub(start); took != 5*time.Second {
			t.Errorf("given up after %v, want 5s", took)
		}
		for _, part := range []string{"b1:8000", "no list of models within 5s: "} {
			if failure == nil || !strings.Contains(failure.Error(), part) {
				t.Errorf("error %v does not say %q", failure, part)
			}
		}
		if _, ok := errors.AsType[*transport.Failure](failure); !ok {
			t.Errorf("error %v does not tell that the engine gave no answer", failure)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.most != 1 {
			t.Errorf("%d questions at a time, want 1", e.most)
		}
		if got := ids(r.Find("b2:8000")); got != "m" {
			t.Errorf("the other engine's models: %q", got)
		}
		if n := len(other.questions()); n < 5 {
			t.Errorf("the other engine was asked %d times in a minute", n)
		}
	})
}

func TestBackendsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := w.engine("b1:8000", "a"), w.engine("b2:8000", "b")
		r := registry(t, at("http://b1:8000"))
		w.run(NewPoller(Config{}, w.get, Hooks{}), r)
		time.Sleep(30*time.Second + 500*time.Millisecond)
		set(t, r, at("http://b2:8000"))
		time.Sleep(1100 * time.Millisecond)
		if got := ids(r.Find("b2:8000")); got != "b" {
			t.Errorf("models %q a second after it arrived", got)
		}
		before := len(first.questions())
		time.Sleep(time.Minute)
		if n := len(first.questions()); n != before {
			t.Errorf("a backend that left was asked %d more times", n-before)
		}
		set(t, r, at("http://b1:8000"), at("http://b2:8000"))
		time.Sleep(1100 * time.Millisecond)
		if got := ids(r.Find("b1:8000")); got != "a" {
			t.Errorf("models %q a second after it came back", got)
		}
		if n := len(second.questions()); n > 9 {
			t.Errorf("asked %d times in about a minute", n)
		}
	})
}

func TestRanksShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", "m")
		var specs []backends.Spec
		for i := range 4 {
			specs = append(specs, backends.Spec{URL: "http://b1:8000", Rank: i})
		}
		r := registry(t, specs[:3]...)
		w.run(NewPoller(Config{}, w.get, Hooks{}), r)
		time.Sleep(3500 * time.Millisecond)
		set(t, r, specs...)
		time.Sleep(time.Second)
		for _, b := range r.Snapshot() {
			if got := ids(b); got != "m" {
				t.Errorf("%s: models %q", b.ID, got)
			}
		}
		if n := len(e.questions()); n != 1 {
			t.Errorf("asked %d times for 4 ranks, want once", n)
		}
	})
}

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var specs []backends.Spec
		for i := range 40 {
			addr := fmt.Sprintf("b%d:8000", i)
			w.engine(addr, addr)
			specs = append(specs, at("http://"+addr))
		}
		specs = append(specs, at("http://gone:8000"))
		r := registry(t, specs...)
		var log told
		p := NewPoller(Config{}, w.get, Hooks{Failed: log.hooks().Failed, Recovered: log.hooks().Recovered})
		err := p.Once(t.Context(), r.Snapshot())
		if failure := transport.FailureOf(err); failure == nil || failure.Kind != transport.Dial || !strings.Contains(err.Error(), "gone:8000") {
			t.Errorf("Once() = %v, want that gone:8000 refused", err)
		}
		for _, b := range r.Snapshot() {
			want := b.ID
			if b.ID == "gone:8000" {
				want = "unknown"
			}
			if got := ids(b); got != want {
				t.Errorf("%s: models %q, want %q", b.ID, got, want)
			}
		}
		w.engine("gone:8000", "m")
		if err := p.Once(t.Context(), r.Snapshot()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"failed gone:8000", "recovered gone:8000"}, log.take()); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
	})
}

// The end of the program is not a failure of the engines.
func TestEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engine("b1:8000").set(0, "")
		r := registry(t, at("http://b1:8000"))
		var log told
		p := NewPoller(Config{}, w.get, log.hooks())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := p.Run(ctx, r.Snapshot); err != nil {
			t.Errorf("Run() = %v", err)
		}
		if got := log.take(); got != nil {
			t.Errorf("hooks were told %q", got)
		}
		// It can be run again.
		again, stop := context.WithTimeout(t.Context(), 7*time.Second)
		defer stop()
		if err := p.Run(again, r.Snapshot); err != nil {
			t.Errorf("Run() = %v", err)
		}
		if diff := cmp.Diff([]string{"failed b1:8000"}, log.take()); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
	})
}

func TestHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000", "m")
		c := Config{Header: func(b *backends.Backend) http.Header {
			return http.Header{"Authorization": {"Bearer for " + b.ID}}
		}}
		if err := NewPoller(c, w.get, Hooks{}).Once(t.Context(), registry(t, at("http://b1:8000")).Snapshot()); err != nil {
			t.Fatal(err)
		}
		if got := e.header.Get("Authorization"); got != "Bearer for b1:8000" {
			t.Errorf("Authorization %q", got)
		}
	})
}

// ML-08: an answer without end is cut, and over real sockets nothing stays open.
func TestAnswerWithoutEnd(t *testing.T) {
	var open atomic.Int64
	closed := make(chan struct{}, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
			closed <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	get := transport.New(transport.DefaultConfig())
	t.Cleanup(get.Close)
	r := registry(t, at(s.URL))
	err := NewPoller(Config{}, get, Hooks{}).Once(t.Context(), r.Snapshot())
	if err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("Once() = %v, want the size named", err)
	}
	for open.Load() > 0 {
		<-closed
	}
}

func TestAnswersThatAreNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine("b1:8000")
		r := registry(t, at("http://b1:8000"))
		p := NewPoller(Config{}, w.get, Hooks{})
		for _, tt := range []struct {
			status     int
			body, want string
		}{
			{404, "", "status 404"},
			{401, list("m"), "status 401"},
			{302, "", "status 302"},
			{200, "", "not a list of models"},
			{200, "<html>", "not a list of models"},
			{200, `{"object":"list"}`, `no "data"`},
			{200, `{"data":null}`, `no "data"`},
			{200, `{"data":7}`, "not a list of models"},
		} {
			e.set(tt.status, tt.body)
			err := p.Once(t.Context(), r.Snapshot())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "b1:8000: /v1/models") {
				t.Errorf("%d %q: %v, want %q", tt.status, tt.body, err, tt.want)
			}
		}
		if got := ids(r.Find("b1:8000")); got != "unknown" {
			t.Errorf("models %q after nothing but failures", got)
		}
	})
}

func TestParseModels(t *testing.T) {
	full := `{"id":"lora-a", "object":"model","parent":"qwen","max_model_len":32768,"permission":[{"x":1.50}]}`
	for _, tt := range []struct {
		body string
		want []backends.Model
	}{
		{`{"data":[]}`, []backends.Model{}},
		{`{"data":[` + full + `]}`, []backends.Model{{ID: "lora-a", Adapter: true, JSON: []byte(full)}}},
		{`{"data":[{"id":"a","parent":null},{"id":"b","parent":""},{"id":"c","parent":{"id":"a"}},{"id":"d","parent":7}]}`, []backends.Model{
			{ID: "a", JSON: []byte(`{"id":"a","parent":null}`)},
			{ID: "b", JSON: []byte(`{"id":"b","parent":""}`)},
			{ID: "c", JSON: []byte(`{"id":"c","parent":{"id":"a"}}`)},
			{ID: "d", JSON: []byte(`{"id":"d","parent":7}`)},
		}},
		{`{"data":[{"id":"a"},{"id":"a","x":1},{"id":""},{},7,null,{"id":3},{"id":"b"}]}`, []backends.Model{
			{ID: "a", JSON: []byte(`{"id":"a"}`)}, {ID: "b", JSON: []byte(`{"id":"b"}`)},
		}},
	} {
		got, err := parseModels([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.body, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.body, diff)
		}
	}
}

func FuzzParseModels(f *testing.F) {
	for _, s := range []string{list("a", "b"), `{"data":[{"id":"a"},7]}`, `{"data":null}`, "", "[[[["} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		models, err := parseModels(p)
		if err != nil && models != nil {
			t.Fatal("models beside an error")
		}
		seen := make(map[string]bool)
		for _, m := range models {
			if m.ID == "" || seen[m.ID] || !strings.Contains(string(p), string(m.JSON)) {
				t.Fatalf("model %+v of %q", m, p)
			}
			seen[m.ID] = true
		}
	})
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		c    Config
		name string
	}{
		{Config{Interval: -1}, "interval"},
		{Config{Timeout: -1}, "timeout"},
	} {
		if err := tt.c.Validate(); err == nil || !strings.HasPrefix(err.Error(), tt.name+":") {
			t.Errorf("Validate() = %v, want it to name %s", err, tt.name)
		}
	}
}
