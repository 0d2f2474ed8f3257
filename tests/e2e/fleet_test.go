package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

const (
	// model is what the engine doubles serve.
	model = "sim"
	// patience bounds every wait. It is for machines that are very busy; nothing
	// takes nearly as long.
	patience = 30 * time.Second
)

// setup says what a fleet consists of. Backends are called b0, b1, … so that what
// depends on their names is the same in every run.
type setup struct {
	// engines is the number of engine doubles.
	engines int
	// engine changes how the doubles are configured.
	engine func(*server.Config)
	// others are backends that are no engine doubles; they come after those. A nil
	// one is a port that nobody listens on.
	others []http.Handler
	// configure changes the router's configuration, which has one pool of all
	// backends.
	configure func(*config.Config)
}

// fleet is a running router and what is behind it.
type fleet struct {
	t       *testing.T
	url     string // data plane
	admin   string
	ids     []string // of the backends, in the order of setup
	engines []string // base URLs of the doubles
	client  *http.Client
	gateway *gateway.Gateway
	stop    func() // ends the router

	addresses map[string]string // what the router dials → where that is
}

// start starts a fleet, and ends and checks it when the test ends.
func start(t *testing.T, s setup) *fleet {
	t.Helper()
	f := &fleet{t: t, addresses: make(map[string]string)}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("engines: %v", err)
		}
	})
	add := func(address string) {
		id := fmt.Sprintf("b%d:80", len(f.ids))
		f.ids = append(f.ids, id)
		f.addresses[id] = address
	}
	for range s.engines {
		web := f.double(ctx, group, s)
		f.engines = append(f.engines, web.URL)
		add(web.Listener.Addr().String())
	}
	for _, handler := range s.others {
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		if handler == nil {
			web.Close()
		}
		add(web.Listener.Addr().String())
	}
	f.route(s.configure)
	return f
}

// twin is a fleet of the same engines behind another router.
func (f *fleet) twin(configure func(*config.Config)) *fleet {
	f.t.Helper()
	other := &fleet{t: f.t, ids: f.ids, engines: f.engines, addresses: f.addresses}
	other.route(configure)
	return other
}

// route starts the fleet's router, and ends and checks it when the test ends, or by stop.
func (f *fleet) route(configure func(*config.Config)) {
	f.t.Helper()
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}}
	var urls []string
	for _, id := range f.ids {
		urls = append(urls, "http://"+id)
	}
	c, _, err := config.FromBackends(urls)
	if err != nil {
		f.t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Pools[0].Models = []config.Model{{Name: model}}
	c.AllowBackendPin = true
	c.Timeouts.ShutdownGrace = patience
	if configure != nil {
		configure(c)
	}
	f.gateway, err = gateway.New(gateway.Options{
		Config: c, Seed: 1,
		DialContext: func(ctx context.Context, network, name string) (net.Conn, error) {
			address, known := f.addresses[name]
			if !known {
				return nil, fmt.Errorf("%s is no backend of this test", name)
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.url, f.admin = "http://"+f.gateway.Addr().String(), "http://"+f.gateway.AdminAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.gateway.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		f.settled()
		f.client.CloseIdleConnections() // or the router waits to see what they are for
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("router: %v", err)
		}
	})
	f.t.Cleanup(f.stop)
}

// double starts one engine double.
func (f *fleet) double(ctx context.Context, group *errgroup.Group, s setup) *httptest.Server {
	cfg := server.Config{
		Model: []string{model}, Profile: "llama-8b-h100", Speed: 100, KVTokens: 400_000, BlockSize: 16,
		PromptTokensDetails: true, Engines: 1, Seed: 1,
	}
	if s.engine != nil {
		s.engine(&cfg)
	}
	engine, err := server.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	group.Go(func() error { return engine.Run(ctx) })
	web := httptest.NewServer(engine)
	f.t.Cleanup(web.Close)
	return web
}

// settled checks what holds after every case: all counts return to 0.
func (f *fleet) settled() {
	f.t.Helper()
	f.await("all in-flight counts are 0", func() bool {
		for _, n := range f.inFlight() {
			if n < 0 {
				f.t.Errorf("a count of requests in flight is negative: %v", f.inFlight())
			}
			if n != 0 {
				return false
			}
		}
		return true
	})
}

// await waits for a condition and fails the test when it does not come about.
func (f *fleet) await(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			f.t.Fatalf("it did not come about in %v that %s; the state is %s", patience, what, f.get(f.admin+"/debug/state"))
		case <-tick.C:
		}
	}
}

// get returns the body of a GET, which must be answered 200.
func (f *fleet) get(url string) string {
	f.t.Helper()
	status, body, err := f.send(f.t.Context(), http.MethodGet, url, "", nil)
	if err != nil || status != http.StatusOK {
		f.t.Errorf("GET %s: %d, %v", url, status, err)
	}
	return body
}

// send sends a request and reads its whole answer. At the end of a test its context
// has ended, but the checks have not.
func (f *fleet) send(ctx context.Context, method, url, body string, header http.Header) (status int, answer string, err error) {
	if ctx.Err() != nil && method == http.MethodGet {
		ctx = context.WithoutCancel(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, header)
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), errors.Join(err, resp.Body.Close())
}

// backendState is a backend in /debug/state.
type backendState struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	InFlight int    `json:"in_flight"`
	Blocks   int    `json:"index_blocks"`
}

// state returns the backends of all pools, by id.
func (f *fleet) state() map[string]backendState {
	f.t.Helper()
	var all struct {
		Pools []struct {
			Backends []backendState `json:"backends"`
		} `json:"pools"`
	}
	f.decode(f.admin+"/debug/state", &all)
	byID := make(map[string]backendState)
	for _, p := range all.Pools {
		for _, b := range p.Backends {
			byID[b.ID] = b
		}
	}
	return byID
}

// inFlight returns what is in flight, in the order of setup.
func (f *fleet) inFlight() []int {
	f.t.Helper()
	state := f.state()
	counts := make([]int, 0, len(f.ids))
	for _, id := range f.ids {
		counts = append(counts, state[id].InFlight)
	}
	return counts
}

// awaitInFlight waits until exactly that many requests are in flight on each
// backend.
func (f *fleet) awaitInFlight(want ...int) {
	f.t.Helper()
	f.await(fmt.Sprintf("in flight is %v", want), func() bool { return fmt.Sprint(f.inFlight()) == fmt.Sprint(want) })
}

// decision is what /debug/decisions shows of one.
type decision struct {
	RequestID     string `json:"request_id"`
	Backend       string `json:"backend"`
	Reason        string `json:"reason"`
	Overflow      bool   `json:"overflow"`
	Attempts      int    `json:"attempts"`
	InFlight      int    `json:"in_flight"`
	PromptBlocks  int    `json:"prompt_blocks"`
	MatchedBlocks int    `json:"matched_blocks"`
	Cached        *int   `json:"cached_tokens"`
}

// decided returns the decision of a request that has ended.
func (f *fleet) decided(requestID string) decision {
	f.t.Helper()
	var found decision
	f.await("the decision of "+requestID+" is shown", func() bool {
		for _, d := range f.decisions() {
			if d.RequestID == requestID {
				found = d
				return true
			}
		}
		return false
	})
	return found
}

// decisions returns the last decisions of requests that have ended.
func (f *fleet) decisions() []decision {
	f.t.Helper()
	var all struct {
		Decisions []decision `json:"decisions"`
	}
	f.decode(f.admin+"/debug/decisions?n=1000", &all)
	return all.Decisions
}

// engineState is what /sim/state tells of a double: the truth.
type engineState struct {
	Engines []struct {
		Arriving int `json:"arriving"`
		Waiting  int `json:"waiting"`
		Running  int `json:"running"`
	} `json:"engines"`
	Requests int `json:"requests"`
	Finished int `json:"finished"`
	Aborted  int `json:"aborted"`
}

// busy is how many sequences are in the double.
func (s engineState) busy() int {
	n := 0
	for _, e := range s.Engines {
		n += e.Arriving + e.Waiting + e.Running
	}
	return n
}

func (f *fleet) engineState(i int) engineState {
	f.t.Helper()
	var s engineState
	f.decode(f.engines[i]+"/sim/state", &s)
	return s
}

// fault breaks or mends a double.
func (f *fleet) fault(i int, body string) {
	f.t.Helper()
	status, answer, err := f.send(f.t.Context(), http.MethodPost, f.engines[i]+"/sim/fault", body, nil)
	if err != nil || status != http.StatusOK {
		f.t.Fatalf("fault %s: %d %s, %v", body, status, answer, err)
	}
}

func (f *fleet) decode(url string, into any) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.get(url)), into); err != nil {
		f.t.Fatalf("%s: %v", url, err)
	}
}

// metric returns the sum of the series of a metric of the router whose labels
// contain all of labels.
func (f *fleet) metric(name string, labels ...string) float64 {
	f.t.Helper()
	sum := 0.0
lines:
	for line := range strings.Lines(f.get(f.admin + "/metrics")) {
		rest, found := strings.CutPrefix(line, name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue lines
			}
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &value); err != nil {
			f.t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}
