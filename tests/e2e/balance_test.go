package e2e

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/router"
)

const (
	hangHeaders = `{"hang":"headers"}`
	mended      = `{"clear":true}`
)

func threshold(n int) func(*config.Config) {
	return func(c *config.Config) { c.Pools[0].Routing.ConcurrencyThreshold = n }
}

// RB-01: a start that all prompts have in common does not pile them up on one
// backend. Nothing is answered here, so that every count can be looked at: no
// backend gets more than the threshold while another has room.
func TestRB01CommonStartSpreadsAtThreshold(t *testing.T) {
	const parallel, limit = 200, 8
	f := start(t, setup{engines: 3, configure: threshold(limit)})
	for i := range f.engines {
		f.fault(i, hangHeaders)
	}
	common := prose(1, 16_000) // 4,000 tokens
	answers := make(chan reply, parallel)
	for i := range parallel {
		go func() {
			r, err := f.chat(t.Context(), ask{messages: []message{user(fmt.Sprintf("%s Question %d?", common, i))}})
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
		f.await("another request is in flight", func() bool {
			counts := f.inFlight()
			if slices.Max(counts) > limit && slices.Min(counts) < limit {
				t.Errorf("in flight %v: one is above %d and one below", counts, limit)
			}
			return counts[0]+counts[1]+counts[2] == i+1
		})
	}
	for i := range f.engines {
		f.fault(i, mended)
	}
	checkOverflow(t, f, answers, parallel, limit)
}

// RB-01, all at once.
func TestRB01CommonStartAllAtOnce(t *testing.T) {
	const parallel, limit = 200, 8
	f := start(t, setup{engines: 3, configure: threshold(limit)})
	common := prose(1, 16_000)
	answers := make(chan reply, parallel)
	atOnce(parallel, func(i int) {
		answers <- f.mustChat(ask{messages: []message{user(fmt.Sprintf("%s Question %d?", common, i))}})
	})
	checkOverflow(t, f, answers, parallel, limit)
}

// checkOverflow checks that every request was answered, and that whoever was sent to
// a full backend, or not to the best one, is labelled as overflow.
func checkOverflow(t *testing.T, f *fleet, answers <-chan reply, n, limit int) {
	t.Helper()
	var counts shares
	overflow := 0
	for range n {
		r := <-answers
		if r.status != http.StatusOK {
			t.Errorf("%+v", r)
		}
		counts.add(r.backend)
	}
	f.await("all decisions are shown", func() bool { return len(f.decisions()) >= n })
	for _, d := range f.decisions() {
		if d.Overflow {
			overflow++
		}
		if d.InFlight >= limit && (d.Reason != router.Saturated.String() || !d.Overflow) {
			t.Errorf("%+v: went to a full backend and does not say so", d)
		}
	}
	if overflow == 0 {
		t.Error("no decision is labelled as overflow")
	}
	f.await(fmt.Sprintf("%d overflows are counted", overflow), func() bool { return int(f.metric("warmroute_overflow_total")) == overflow })
	if len(counts.of) != 3 {
		t.Errorf("%d of 3 backends were used: %v", len(counts.of), counts.of)
	}
}

// RB-01, with a pool that queues: no backend ever has more than the threshold, and
// everybody is served.
func TestRB01CommonStartQueues(t *testing.T) {
	const parallel, limit = 200, 8
	f := start(t, setup{engines: 3, configure: func(c *config.Config) {
		threshold(limit)(c)
		c.Pools[0].Routing.OnSaturation = router.Queue
		c.Timeouts.Queue = patience
	}})
	common := prose(1, 16_000)
	var counts shares
	atOnce(parallel, func(i int) {
		counts.add(f.mustChat(ask{messages: []message{user(fmt.Sprintf("%s Question %d?", common, i))}}).backend)
	})
	for _, d := range f.decisions() {
		if d.InFlight >= limit {
			t.Errorf("%+v: went to a full backend", d)
		}
	}
	if len(counts.of) != 3 {
		t.Errorf("%d of 3 backends were used: %v", len(counts.of), counts.of)
	}
}

// RB-05: a prompt that nobody has seen goes to the least busy backend, not to the
// one with the smallest index.
func TestRB05UnseenPromptGoesToTheIdle(t *testing.T) {
	f := start(t, setup{engines: 2})
	for i := range 20 {
		f.mustChat(ask{messages: []message{user(prose(uint64(100+i), 4000))}, pin: f.ids[1]})
	}
	f.fault(0, hangHeaders)
	held := f.hold(20, f.ids[0], "busy")
	if state := f.state(); state[f.ids[0]].Blocks >= state[f.ids[1]].Blocks {
		t.Fatalf("the index of the idle backend is not the larger one: %+v", state)
	}
	for i := range 5 {
		r := f.mustChat(ask{messages: []message{user(prose(uint64(200+i), 4000))}})
		if r.backend != f.ids[1] {
			t.Errorf("unseen prompt %d went to %s (%s), want the idle %s", i, r.backend, r.reason, f.ids[1])
		}
	}
	f.fault(0, mended)
	for range 20 {
		<-held
	}
}

// RB-06: a backend that is out of rotation takes no part in any mean: with its 0 in
// flight, the two others would each be far above it and count as full.
func TestRB06EjectedBackendIsNoPartOfTheMean(t *testing.T) {
	const load = 13
	f := start(t, setup{
		engines: 2, others: []http.Handler{nil},
		configure: func(c *config.Config) {
			c.Pools[0].Routing.LoadFactor = 1
			c.Pools[0].Ejection.Failures = 1
		},
	})
	prefix := prose(1, 8000)
	f.mustChat(ask{messages: []message{user(prefix)}, pin: f.ids[1]})
	if r, err := f.chat(t.Context(), ask{messages: []message{user("hello")}, pin: f.ids[2], whole: true}); err != nil || r.status < 500 {
		t.Fatalf("%+v, %v: a backend that is not there answered", r, err)
	}
	if s := f.state()[f.ids[2]].State; s != "ejected" {
		t.Fatalf("the backend that is not there is %s", s)
	}
	f.fault(0, hangHeaders)
	f.fault(1, hangHeaders)
	held := []<-chan reply{f.hold(load, f.ids[0], "first"), f.hold(load, f.ids[1], "second")}
	repeat := make(chan reply, 1)
	go func() {
		r, err := f.chat(t.Context(), ask{messages: []message{user(prefix + " And then?")}})
		if err != nil {
			t.Error(err)
		}
		repeat <- r
	}()
	f.awaitInFlight(load, load+1, 0)
	f.fault(0, mended)
	f.fault(1, mended)
	if r := <-repeat; r.backend != f.ids[1] || r.reason != router.LongestMatch.String() {
		t.Errorf("went to %s (%s), want the holder %s", r.backend, r.reason, f.ids[1])
	}
	for _, answers := range held {
		for range load {
			<-answers
		}
	}
}

// RB-07: when the best holder is full, the next best is taken, not just anybody.
func TestRB07SecondBestHolder(t *testing.T) {
	const limit = 4
	f := start(t, setup{engines: 3, configure: threshold(limit)})
	prompt := prose(1, 10_000)
	f.mustChat(ask{messages: []message{user(prompt[:6000])}, pin: f.ids[1]})
	f.mustChat(ask{messages: []message{user(prompt)}, pin: f.ids[0]})
	f.fault(0, hangHeaders)
	held := f.hold(limit, f.ids[0], "full")
	r := f.mustChat(ask{messages: []message{user(prompt + " And then?")}})
	if r.backend != f.ids[1] || r.reason != router.OverflowHolder.String() {
		t.Errorf("went to %s (%s), want the next longest match on %s", r.backend, r.reason, f.ids[1])
	}
	if d := f.decided(r.id); !d.Overflow || d.MatchedBlocks < 20 {
		t.Errorf("%+v: want overflow to a holder of 60 %% of the prompt", d)
	}
	f.fault(0, mended)
	for range limit {
		<-held
	}
}

// RB-10: a backend that once asked for a pause is back in rotation after it.
func TestRB10CoolingEnds(t *testing.T) {
	f := start(t, setup{engines: 2})
	prefix := prose(1, 8000)
	f.mustChat(ask{messages: []message{user(prefix)}, pin: f.ids[0]})
	cooling := func() bool {
		return f.state()[f.ids[0]].State == "cooling" &&
			f.metric("warmroute_backend_state", `backend="`+f.ids[0]+`"`, `state="cooling"`) == 1
	}
	if cooling() {
		t.Fatal("cooling before anything happened")
	}
	f.fault(0, `{"status":429,"retry_after":1}`)
	r := f.mustChat(ask{messages: []message{user(prefix + " Again?")}})
	if r.backend != f.ids[1] {
		t.Errorf("the answer came from %s, want the other backend", r.backend)
	}
	if d := f.decided(r.id); d.Attempts != 2 {
		t.Errorf("%+v: want 2 attempts", d)
	}
	if !cooling() {
		t.Errorf("after a 429 the backend is %q", f.state()[f.ids[0]].State)
	}
	f.await("the backend is up again", func() bool { return f.state()[f.ids[0]].State == "up" })
	if f.metric("warmroute_backend_state", `backend="`+f.ids[0]+`"`, `state="up"`) != 1 {
		t.Error("the metric does not show that it is up again")
	}
	var counts shares
	for i := range 20 {
		counts.add(f.mustChat(ask{messages: []message{user(prose(uint64(100+i), 4000))}}).backend)
	}
	if counts.of[f.ids[0]] < 5 {
		t.Errorf("of 20 new prompts the backend that is back got %d", counts.of[f.ids[0]])
	}
}

// RB-11: distinct prefixes spread evenly over equal backends.
func TestRB11DistinctPrefixesSpread(t *testing.T) {
	const prefixes, equal = 1000, 10
	for _, strategy := range []string{router.PrefixAware, router.PrefixHash} {
		t.Run(strategy, func(t *testing.T) {
			f := start(t, setup{
				engines:   equal,
				engine:    func(c *server.Config) { c.Speed, c.KVTokens = 20, 50_000 },
				configure: func(c *config.Config) { c.Pools[0].Routing.Strategy = strategy },
			})
			var counts shares
			limited(prefixes, 40, func(i int) {
				counts.add(f.mustChat(ask{messages: []message{user(prose(uint64(i), 1200))}}).backend)
			})
			most := 0
			for _, n := range counts.of {
				most = max(most, n)
			}
			t.Logf("shares of %d: %v", prefixes, counts.of)
			if float64(most) >= 1.25*prefixes/equal {
				t.Errorf("the busiest backend got %d of %d, want less than 1.25 times the mean", most, prefixes)
			}
		})
	}
}

// RB-12: requests without a prefix spread by load, whatever the reason.
func TestRB12WithoutPrefix(t *testing.T) {
	transcribe := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"text":"hello"}`)
	})
	form := func(i int) (body, contentType string) {
		var buf bytes.Buffer
		w := multipart.NewWriter(&buf)
		_ = w.WriteField("model", model)
		part, _ := w.CreateFormFile("file", "speech.wav")
		_, _ = io.WriteString(part, strings.Repeat(string(rune('a'+i%26)), 2000))
		_ = w.Close()
		return buf.String(), w.FormDataContentType()
	}
	for name, c := range map[string]struct {
		setup setup
		send  func(f *fleet, i int) string // returns the backend
	}{
		"multipart": {setup{others: []http.Handler{transcribe, transcribe, transcribe}}, func(f *fleet, i int) string {
			body, contentType := form(i)
			return post(f, "/v1/audio/transcriptions", contentType, body)
		}},
		"short prompt": {setup{engines: 3}, func(f *fleet, i int) string {
			return f.mustChat(ask{messages: []message{user(fmt.Sprintf("Hi %d", i))}}).backend
		}},
		"the same short prompt": {setup{engines: 3}, func(f *fleet, _ int) string {
			return f.mustChat(ask{messages: []message{user("Hi")}}).backend
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, c.setup)
			var counts shares
			for i := range 90 {
				counts.add(c.send(f, i))
			}
			for _, id := range f.ids {
				if n := counts.of[id]; n < 25 || n > 35 {
					t.Errorf("shares %v, want about 30 each", counts.of)
					break
				}
			}
			f.await("90 requests without a prefix are counted", func() bool { return f.metric("warmroute_requests_without_prefix_total") == 90 })
		})
	}
}

// post sends a body, which must be answered 200, and returns the backend.
func post(f *fleet, path, contentType, body string) string {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if data, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		f.t.Errorf("%s: %d %s", path, resp.StatusCode, data)
	}
	return resp.Header.Get("X-Warmroute-Backend")
}

// RB-14: a backend of four times the weight gets four times the load.
func TestRB14Weights(t *testing.T) {
	f := start(t, setup{engines: 2, configure: func(c *config.Config) { c.Pools[0].Backends[0].Weight = 4 }})
	f.fault(0, hangHeaders)
	f.fault(1, hangHeaders)
	answers := make(chan reply, 100)
	for i := range 100 {
		go func() { answers <- f.mustChat(ask{messages: []message{user(prose(uint64(i), 4000))}}) }()
	}
	f.await("100 requests are in flight", func() bool { n := f.inFlight(); return n[0]+n[1] == 100 })
	got := f.inFlight()
	t.Logf("in flight %v", got)
	if got[0] < 74 || got[0] > 86 {
		t.Errorf("in flight %v, want about 80 and 20", got)
	}
	f.fault(0, mended)
	f.fault(1, mended)
	for range 100 {
		<-answers
	}
}

// RB-14: each backend's own threshold is honoured, to the request.
func TestRB14OwnThresholds(t *testing.T) {
	f := start(t, setup{engines: 2, configure: func(c *config.Config) {
		c.Pools[0].Routing.OnSaturation = router.Reject
		c.Pools[0].Backends[0].Weight, c.Pools[0].Backends[0].ConcurrencyThreshold = 4, 40
		c.Pools[0].Backends[1].ConcurrencyThreshold = 10
	}})
	f.fault(0, hangHeaders)
	f.fault(1, hangHeaders)
	answers := make(chan reply, 100)
	for i := range 100 {
		go func() {
			r, err := f.chat(t.Context(), ask{messages: []message{user(prose(uint64(i), 4000))}})
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	rejected := 0
	for range 50 { // what has no room is answered at once
		if r := <-answers; r.status != http.StatusTooManyRequests || !strings.Contains(r.body, `"error"`) {
			t.Errorf("%+v, want a 429 in JSON", r)
		}
		rejected++
	}
	f.awaitInFlight(40, 10)
	f.fault(0, mended)
	f.fault(1, mended)
	for range 50 {
		if r := <-answers; r.status != http.StatusOK {
			t.Errorf("%+v", r)
		}
	}
}
