package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/gateway"
)

// often is how often the tests of this concern read the engines' metrics.
const often = 50 * time.Millisecond

// watched is a fleet whose log can be read and whose engines are scraped often.
type watched struct {
	*fleet

	log *logbook
}

// watch starts one, and ends and checks it when the test ends.
func watch(t *testing.T, s setup) *watched {
	t.Helper()
	f := &fleet{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}}}
	w := &watched{fleet: f, log: new(logbook)}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	addresses := make(map[string]string)
	var urls []string
	add := func(l net.Listener) {
		id := fmt.Sprintf("b%d:80", len(f.ids))
		f.ids = append(f.ids, id)
		addresses[id] = l.Addr().String()
		urls = append(urls, "http://"+id)
	}
	for range s.engines {
		web := f.double(ctx, group, s)
		f.engines = append(f.engines, web.URL)
		add(web.Listener)
	}
	for _, handler := range s.others {
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		f.engines = append(f.engines, web.URL)
		add(web.Listener)
	}
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Pools[0].Models = []config.Model{{Name: model}}
	c.AllowBackendPin = true
	c.Timeouts.ShutdownGrace = patience
	c.Scrape.Interval = often
	if s.configure != nil {
		s.configure(c)
	}
	f.gateway, err = gateway.New(gateway.Options{
		Config: c, Seed: 1, Logger: slog.New(slog.NewJSONHandler(w.log, nil)),
		DialContext: func(ctx context.Context, network, name string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addresses[name])
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() error { return f.gateway.Run(ctx) })
	f.url, f.admin = "http://"+f.gateway.Addr().String(), "http://"+f.gateway.AdminAddr().String()
	t.Cleanup(func() {
		f.settled()
		f.client.CloseIdleConnections()
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("fleet: %v", err)
		}
	})
	return w
}

// around returns an engine double behind a handler that may change what it says.
func around(t *testing.T, change func(*server.Config), wrap func(engine http.Handler) http.Handler) http.Handler {
	t.Helper()
	cfg := server.Config{
		Model: []string{model}, Profile: "llama-8b-h100", Speed: 100, KVTokens: 400_000, BlockSize: 16,
		PromptTokensDetails: true, Engines: 1, Seed: 1,
	}
	if change != nil {
		change(&cfg)
	}
	engine, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return wrap(engine)
}

// withPage changes an engine's metrics page; a change to nothing is a 404.
func withPage(change func(page string) string) func(http.Handler) http.Handler {
	return func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				engine.ServeHTTP(w, r)
				return
			}
			was := httptest.NewRecorder()
			engine.ServeHTTP(was, r)
			page := change(was.Body.String())
			if page == "" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", was.Header().Get("Content-Type"))
			_, _ = w.Write([]byte(page))
		})
	}
}

// known is what /debug/state shows of a backend's engine and its feedback.
type known struct {
	ID         string   `json:"id"`
	State      string   `json:"state"`
	Blocks     int      `json:"index_blocks"`
	Rate       float64  `json:"prefill_rate"`
	HorizonAge *float64 `json:"horizon_age_s"`
	Hopeless   bool     `json:"hopeless"`
	Silent     bool     `json:"silent"`
	Engine     *struct {
		Name     string   `json:"name"`
		KVUsage  *float64 `json:"kv_usage"`
		Capacity *int     `json:"capacity_tokens"`
		Block    *int     `json:"block_tokens"`
		Asleep   *bool    `json:"asleep"`
	} `json:"engine"`
	Scrape *struct {
		Good   int    `json:"good"`
		Failed int    `json:"failed"`
		Error  string `json:"error"`
	} `json:"scrape"`
}

// looks is how often the engine was looked at.
func (k known) looks() int {
	if k.Scrape == nil {
		return 0
	}
	return k.Scrape.Good + k.Scrape.Failed
}

// know returns what is known of the i-th backend.
func (w *watched) know(i int) known {
	w.t.Helper()
	var all struct {
		Pools []struct {
			Backends []known `json:"backends"`
		} `json:"pools"`
	}
	w.decode(w.admin+"/debug/state", &all)
	for _, p := range all.Pools {
		for _, b := range p.Backends {
			if b.ID == w.ids[i] {
				return b
			}
		}
	}
	w.t.Fatalf("backend %s is not in /debug/state", w.ids[i])
	return known{}
}

// look waits until the i-th engine was looked at anew, from start to end.
func (w *watched) look(i int) known {
	w.t.Helper()
	before := w.know(i).looks()
	var now known
	w.await("the engine was looked at anew", func() bool {
		now = w.know(i)
		return now.looks() >= before+2 // one may have been under way
	})
	return now
}

// computed is what a double knows of the last sequence it finished.
type computed struct {
	ID     string `json:"id"`
	Prompt int    `json:"prompt_tokens"`
	Cached int    `json:"cached_tokens"`
}

// last returns the last sequence that the i-th double finished: the truth about its
// cache, whatever it reports.
func (w *watched) last(i int) computed {
	w.t.Helper()
	var state struct {
		Recent []computed `json:"recent"`
	}
	w.decode(w.engines[i]+"/sim/state", &state)
	if len(state.Recent) == 0 {
		return computed{}
	}
	return state.Recent[len(state.Recent)-1]
}

// predicted returns what was predicted for a request that has ended.
func (w *watched) predicted(requestID string) int {
	w.t.Helper()
	found := -1
	w.await("the decision of "+requestID+" is shown", func() bool {
		var all struct {
			Decisions []struct {
				RequestID string `json:"request_id"`
				Predicted int    `json:"predicted_cached_tokens"`
			} `json:"decisions"`
		}
		w.decode(w.admin+"/debug/decisions?n=1000", &all)
		for _, d := range all.Decisions {
			if d.RequestID == requestID {
				found = d.Predicted
			}
		}
		return found >= 0
	})
	return found
}

// logbook is a log that may be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the records so far that have a message beginning with text.
func (l *logbook) lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	all := l.text.String()
	l.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(all) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if message, _ := record["msg"].(string); strings.HasPrefix(message, text) {
			found = append(found, record)
		}
	}
	return found
}

// documents returns n texts of a size in bytes that have nothing in common.
func documents(from uint64, n, size int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prose(from+uint64(i), size)
	}
	return all
}

// teach sends each document once to one backend.
func (w *watched) teach(documents []string, backend string) {
	w.t.Helper()
	for _, d := range documents {
		w.mustChat(ask{messages: []message{user(d)}, pin: backend})
	}
}
