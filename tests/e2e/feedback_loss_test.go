package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// moves is how often horizons moved for a cause.
func (w *watched) moves(cause string) float64 {
	w.t.Helper()
	return w.metric("warmroute_horizon_moves_total", fmt.Sprintf("cause=%q", cause))
}

// UF-16: an engine restarts at its address with an empty cache. Its counters tell, and
// then nothing that it held steers any request.
func TestUF16RestartSeenByMetrics(t *testing.T) {
	w := watch(t, setup{engines: 2})
	docs := documents(0, 50, 4000)
	w.teach(docs, w.ids[1])
	w.look(1)
	held := w.know(1).Blocks
	w.fault(1, `{"restart":true}`)
	restarted := time.Now()
	w.await("the restart is noticed", func() bool { return w.moves("restart") == 1 })
	t.Logf("noticed %v after the restart, looking every %v", time.Since(restarted), often)
	if left := w.know(1).Blocks; held < 500 || left != 0 {
		t.Errorf("%d of %d blocks of the restarted backend are still believed", left, held)
	}
	var of shares
	for _, d := range docs {
		r := w.mustChat(ask{messages: []message{user(d)}})
		of.add(r.backend)
		if r.reason == "longest_match" {
			t.Errorf("a document went to %s as a match: nobody holds it any more", r.backend)
		}
	}
	// The restarted one has lately had fifty requests, and the other none.
	if of.of[w.ids[0]] < 15 || of.of[w.ids[1]] == 0 {
		t.Errorf("shares after the restart are %v, want both backends used", of.of)
	}
	if n := w.moves("restart"); n != 1 {
		t.Errorf("the one restart moved the horizon %v times", n)
	}
}

// UF-16 without metrics: the first answers tell. At most two requests go where nothing
// is cached any more.
func TestUF16RestartSeenByAnswers(t *testing.T) {
	w := watch(t, setup{engines: 2, configure: func(c *config.Config) { c.Scrape.Enabled = false }})
	docs := documents(0, 50, 4000)
	w.teach(docs, w.ids[1])
	for _, d := range docs[:10] { // it reports hits, as a backend in use has
		if r := w.mustChat(ask{messages: []message{user(d)}}); r.backend != w.ids[1] || r.cached == 0 {
			t.Fatalf("%+v: want a hit on %s", r, w.ids[1])
		}
	}
	held := w.know(1).Blocks
	w.fault(1, `{"restart":true}`)
	misrouted := 0
	for _, d := range docs {
		r := w.mustChat(ask{messages: []message{user(d)}})
		if r.backend == w.ids[1] && r.cached == 0 && w.predicted(r.id) > 0 {
			misrouted++
		}
	}
	t.Logf("%d of 50 requests went where their prompt was no more", misrouted)
	if misrouted > 2 {
		t.Errorf("%d requests were misrouted, want at most 2", misrouted)
	}
	if n := w.moves("loss") + w.moves("shortfall"); n != 1 {
		t.Errorf("the horizon moved %v times, want once", n)
	}
	if left := w.know(1).Blocks; left >= held {
		t.Errorf("%d blocks are believed, %d before the restart", left, held)
	}
}

// FO-10: a sleeping engine gets nothing, what it held is not believed any more, and it
// is used again when it wakes.
func TestFO10SleepingEngines(t *testing.T) {
	w := watch(t, setup{engines: 2})
	docs := documents(0, 10, 4000)
	w.teach(docs, w.ids[1])
	w.look(1)
	w.fault(1, `{"sleep":true}`)
	w.await("the router knows that it sleeps", func() bool { return w.know(1).State == "asleep" })
	if k := w.know(1); k.Blocks != 0 || k.HorizonAge == nil || w.moves("sleep") != 1 {
		t.Errorf("a sleeping engine is thought to hold %d blocks: %+v", k.Blocks, k)
	}
	for _, d := range docs {
		if r := w.mustChat(ask{messages: []message{user(d)}}); r.backend != w.ids[0] {
			t.Errorf("a request went to %s, which sleeps", r.backend)
		}
	}
	if n := w.metric("warmroute_backend_state", fmt.Sprintf("backend=%q", w.ids[1]), `state="asleep"`); n != 1 {
		t.Error("the metrics do not say that it sleeps")
	}
	w.fault(1, `{"sleep":false}`)
	w.await("it takes requests again", func() bool { return w.know(1).State == "up" })
	var of shares
	for _, d := range documents(100, 20, 4000) {
		of.add(w.mustChat(ask{messages: []message{user(d)}}).backend)
	}
	if of.of[w.ids[1]] < 5 {
		t.Errorf("shares after it woke are %v", of.of)
	}
	for _, d := range docs { // they have a new home
		if r := w.mustChat(ask{messages: []message{user(d)}}); r.backend != w.ids[0] || r.cached == 0 {
			t.Errorf("%+v: want a hit on %s", r, w.ids[0])
		}
	}
}

// Where engines do not report cached tokens, the router says once which flag to set,
// and finds a lost cache by the engines' counters.
func TestLossWithoutReports(t *testing.T) {
	w := watch(t, setup{engines: 2, engine: func(c *server.Config) { c.PromptTokensDetails = false }})
	docs := documents(0, 60, 16_000)
	w.teach(docs, w.ids[1])
	for _, d := range documents(1000, 20, 600) {
		w.mustChat(ask{messages: []message{user(d)}, pin: w.ids[0]})
	}
	for _, d := range docs[:5] {
		if r := w.mustChat(ask{messages: []message{user(d)}}); r.backend != w.ids[1] || w.last(1).Cached < 3000 {
			t.Fatalf("%s has not what it was taught: %+v", r.backend, w.last(1))
		}
	}
	w.look(1)
	w.fault(1, `{"lose_cache":true}`)
	misrouted, noticed, tokens := 0, 0, 0
	for i, d := range docs {
		r := w.mustChat(ask{messages: []message{user(d)}})
		if p := w.predicted(r.id); p > 0 && w.last(1).Cached == 0 && r.backend == w.ids[1] {
			misrouted++
			tokens += p
		}
		if noticed == 0 && w.moves("unreported") > 0 {
			noticed = i + 1
		}
	}
	t.Logf("the loss was noticed after %d answers; %d of %d (%d predicted tokens) went where nothing was cached any more; without counters all would",
		noticed, misrouted, len(docs), tokens)
	if noticed == 0 || noticed > 25 || misrouted > 40 {
		t.Errorf("noticed after %d answers, %d misrouted", noticed, misrouted)
	}
	if n := w.moves("loss") + w.moves("shortfall") + w.moves("restart"); n != 0 {
		t.Errorf("%v horizon moves for causes that nobody could know", n)
	}
	// The last window ends by forgetting what was computed anew in the one before, too.
	again := func() (missed int) {
		for _, d := range docs {
			r := w.mustChat(ask{messages: []message{user(d)}})
			if w.last(strings.Index("01", r.backend[1:2])).Cached == 0 {
				missed++
			}
		}
		return missed
	}
	second, third := again(), again()
	t.Logf("sent a second time after the loss, %d documents missed, a third time %d", second, third)
	if second > len(docs)/4 || third != 0 {
		t.Errorf("%d and %d documents missed after the recovery", second, third)
	}
	warned := w.log.lines(t, "backend does not report cached tokens")
	if len(warned) != 2 || !strings.Contains(fmt.Sprint(warned[0]["msg"]), "--enable-prompt-tokens-details") {
		t.Errorf("%d warnings, want one for each backend that names the flag: %v", len(warned), warned)
	}
	if !w.know(0).Silent || !w.know(1).Silent || w.metric("warmroute_backend_silent") != 2 {
		t.Errorf("silent: %v and %v", w.know(0).Silent, w.know(1).Silent)
	}
}

// reloads gives an engine an adapter that can be exchanged: a name for one of two
// adapters of the double, whose cached blocks differ.
func reloads(exchanged *atomic.Bool) func(http.Handler) http.Handler {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if exchanged.Load() {
					body = bytes.Replace(body, []byte(`"sql"`), []byte(`"sql.2"`), 1)
				}
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			engine.ServeHTTP(w, r)
		})
	}
}

// LO-03: an adapter's weights are exchanged under its name. Its prompts miss once and
// are learned anew; what the base model has cached is believed all along.
func TestLO03ExchangedAdapters(t *testing.T) {
	var exchanged atomic.Bool
	engine := func() http.Handler {
		return around(t, func(c *server.Config) { c.Model = []string{model, "sql", "sql.2"} }, reloads(&exchanged))
	}
	w := watch(t, setup{
		others:    []http.Handler{engine(), engine()},
		configure: func(c *config.Config) { c.Pools[0].Models = append(c.Pools[0].Models, config.Model{Name: "sql"}) },
	})
	base, adapted := documents(0, 8, 4000), documents(100, 4, 4000)
	homes := make(map[string]string)
	send := func(name, text string) reply {
		r := w.mustChat(ask{messages: []message{user(text)}, model: name})
		if home := homes[name+text]; home != "" && home != r.backend {
			t.Errorf("a prompt of %s moved from %s to %s (%s)", name, home, r.backend, r.reason)
		}
		homes[name+text] = r.backend
		return r
	}
	for range 2 {
		for _, d := range base {
			send(model, d)
		}
		for _, d := range adapted {
			send("sql", d)
		}
	}
	exchanged.Store(true)
	for i, d := range adapted {
		if r := send("sql", d); r.cached != 0 {
			t.Errorf("%d tokens are cached of weights that are gone", r.cached)
		}
		for _, b := range base[2*i : 2*i+2] {
			if r := send(model, b); r.cached < r.prompt/2 {
				t.Errorf("the base model found %d of %d tokens", r.cached, r.prompt)
			}
		}
	}
	for _, d := range adapted {
		if r := send("sql", d); r.cached < r.prompt/2 {
			t.Errorf("%d of %d tokens cached: not learned anew", r.cached, r.prompt)
		}
	}
	var moved bytes.Buffer
	for _, m := range w.log.lines(t, "backend has lost cached prefixes") {
		_ = json.NewEncoder(&moved).Encode(m)
	}
	if moved.Len() > 0 {
		t.Errorf("horizons moved for one adapter's sake:\n%s", &moved)
	}
}
