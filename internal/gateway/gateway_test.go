package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/router"
)

func TestServesEveryProtocolOnRealSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &engine{}}
	go server.Serve(l)
	defer server.Close()
	c, _, err := config.FromBackends([]string{"http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Override(config.Overrides{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	for name, set := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		protocols := new(http.Protocols)
		set(protocols)
		carrier := &http.Transport{Protocols: protocols}
		for range 200 { // until the models are learned
			resp, err := (&http.Client{Transport: carrier}).Post("http://"+g.Addr().String()+"/v1/chat/completions", "application/json",
				strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			if resp.StatusCode != http.StatusOK || resp.Proto != name || !strings.Contains(string(body), "chat.completion") {
				t.Errorf("%s: %d %s %s", name, resp.StatusCode, resp.Proto, body)
			}
			break
		}
		carrier.CloseIdleConnections()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := net.Dial("tcp", g.AdminAddr().String()); err == nil {
		t.Error("the admin port is still open")
	}
}

func TestTakenPortsAreNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for setting, o := range map[string]config.Overrides{
		"listen":       {Listen: taken.Addr().String()},
		"admin_listen": {AdminListen: taken.Addr().String(), Listen: "127.0.0.1:0"},
	} {
		c, _, err := config.FromBackends([]string{"http://b1:8000"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Override(o); err != nil {
			t.Fatal(err)
		}
		_, err = New(Options{Config: c})
		want := setting + " (--" + strings.ReplaceAll(setting, "_", "-") + "): " + taken.Addr().String() + " is in use"
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("New: %v\nwant one line: %s…", err, want)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a gateway without a configuration was made")
	}
}

func TestCloseGivesThePortsUp(t *testing.T) {
	c, _, err := config.FromBackends([]string{"http://b1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	g, err := New(Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if l, err := net.Listen("tcp", g.Addr().String()); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

func TestPS08LongStreamsEndAndSlowHeadersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		begin := time.Now()
		status, _, body := s.chat("hi", `,"stream":true,"max_tokens":150`)
		if status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Count(body, "chunk") != 150 {
			t.Errorf("%d, %d bytes: …%s", status, len(body), body[max(0, len(body)-100):])
		}
		if took := time.Since(begin); took != 150*time.Second {
			t.Errorf("the stream took %v", took)
		}
		conn, err := s.network.DialContext(t.Context(), "tcp", dataAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begin = time.Now()
		if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow"); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("the connection was dropped after %v, want timeouts.read_header 10s; %q", took, answer)
		}
	})
}

func TestHeadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) { c.Limits.HeaderBytes = 4 << 10 }, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		status, _, _ := s.chat("hi", "", "X-Long", strings.Repeat("a", 16<<10))
		if status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d, want 431", status)
		}
	})
}

func TestSD01RunningStreamsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(c *config.Config) {
			c.Timeouts.ShutdownDelay, c.Timeouts.ShutdownGrace = 10*time.Second, time.Minute
		}, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		synctest.Wait()
		var clients sync.WaitGroup
		for i := range 20 {
			clients.Go(func() {
				if status, _, body := s.chat(fmt.Sprint(i), `,"stream":true,"max_tokens":45`); status != 200 || !strings.HasSuffix(body, "[DONE]\n\n") {
					t.Errorf("a stream was cut: %d …%s", status, body[max(0, len(body)-80):])
				}
			})
		}
		time.Sleep(5 * time.Second)
		s.cancel()
		signal := time.Now()
		synctest.Wait()
		if status, body := s.admin("/readyz"); status != 503 || !strings.Contains(body, `"stopping"`) {
			t.Errorf("readiness after the signal: %d %s", status, body)
		}
		if status, _ := s.admin("/healthz"); status != 200 {
			t.Errorf("liveness after the signal: %d", status)
		}
		time.Sleep(9 * time.Second)
		if status, _, _ := s.chat("late", ""); status != 200 {
			t.Errorf("a request during the delay got %d", status)
		}
		// Whoever asks on a connection of its own for long is told to make another one.
		conn, err := s.network.DialContext(t.Context(), "tcp", dataAddr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.Contains(string(answer), "Connection: close\r\n") {
			t.Errorf("an answer during the delay: %v, %s", err, answer)
		}
		for _, path := range []string{"/health", "/ping"} {
			if status, _, _ := s.request(http.MethodGet, "http://"+dataAddr+path, ""); status != 503 {
				t.Errorf("%s on the data port says %d while the router stops", path, status)
			}
		}
		status, _, answer := s.request(http.MethodPost, "http://"+dataAddr+"/grpc.health.v1.Health/Check", "{}", "Content-Type", "application/json")
		if status != 200 || !strings.Contains(answer, "NOT_SERVING") {
			t.Errorf("health over RPC while the router stops: %d %s", status, answer)
		}
		time.Sleep(2 * time.Second)
		if _, err := s.network.DialContext(t.Context(), "tcp", dataAddr); err == nil {
			t.Error("the listener is open after the delay")
		}
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		close(s.ended)
		if took := time.Since(signal); took < 40*time.Second || took > 41*time.Second {
			t.Errorf("ended %v after the signal, want right after the last stream at 40s", took)
		}
		clients.Wait()
	})
}

// A client that keeps its connection is asked to leave it while the router still serves: what
// looks at readiness, such as a cluster's service, moves new connections only.
func TestSD01KeptConnectionsAreLeft(t *testing.T) {
	for name, speak := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, func(c *config.Config) { c.Timeouts.ShutdownDelay = 10 * time.Second },
					map[string]http.Handler{"b1:8000": &engine{}})
				synctest.Wait()
				var dials atomic.Int32
				transport := &http.Transport{
					Protocols: new(http.Protocols),
					DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
						dials.Add(1)
						return s.network.DialContext(ctx, network, address)
					},
				}
				speak(transport.Protocols)
				defer transport.CloseIdleConnections()
				ask := func(connections int32) {
					t.Helper()
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+dataAddr+"/v1/chat/completions",
						strings.NewReader(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`))
					if err != nil {
						t.Fatal(err)
					}
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 || resp.Proto != name {
						t.Errorf("%s %d, %v", resp.Proto, resp.StatusCode, err)
					}
					synctest.Wait()
					if got := dials.Load(); got != connections {
						t.Errorf("%d connections so far, want %d", got, connections)
					}
				}
				ask(1)
				ask(1)
				s.cancel()
				synctest.Wait()
				ask(1)
				ask(2)
				ask(3)
				s.stop()
			})
		})
	}
}

func TestSD02TheGraceBeginsAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		s := start(t, func(c *config.Config) {
			c.Timeouts.ShutdownDelay, c.Timeouts.ShutdownGrace = 10*time.Second, 30*time.Second
		}, map[string]http.Handler{"b1:8000": e})
		synctest.Wait()
		var clients sync.WaitGroup
		for tokens, finishes := range map[int]bool{39: true, 310: false} {
			clients.Go(func() {
				_, _, body := s.chat("hi", fmt.Sprintf(`,"stream":true,"max_tokens":%d`, tokens))
				if strings.HasSuffix(body, "[DONE]\n\n") != finishes {
					t.Errorf("stream of %d s: …%s", tokens, body[max(0, len(body)-80):])
				}
			})
		}
		synctest.Wait()
		s.cancel()
		signal := time.Now()
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		close(s.ended)
		if took := time.Since(signal); took < 40*time.Second || took > 42*time.Second {
			t.Errorf("ended after %v, want delay + grace = 40s", took)
		}
		if n := len(s.records()); n != 2 {
			t.Errorf("%d access records of 2 requests when Run had ended", n)
		}
		clients.Wait()
		synctest.Wait()
		if _, cancelled := e.counts(); cancelled != 1 {
			t.Errorf("%d streams were cancelled at the engine, want the one that was cut", cancelled)
		}
		if n := s.Router().Pools()[0].Status(time.Now())[0].InFlight; n != 0 {
			t.Errorf("%d in flight at the end", n)
		}
	})
}

func TestOB06ReadinessFollowsTheEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		synctest.Wait()
		ready := func(want int, counts string) {
			t.Helper()
			if status, body := s.admin("/readyz"); status != want || !strings.Contains(body, counts) {
				t.Errorf("readiness: %d, want %d with %s\n%s", status, want, counts, body)
			}
			if status, _ := s.admin("/healthz"); status != 200 {
				t.Errorf("liveness: %d", status)
			}
		}
		ready(200, `"serving": 2`)
		s.engines["b1:8000"].Close()
		time.Sleep(15 * time.Second)
		ready(200, `"serving": 1`)
		s.engines["b2:8000"].Close()
		time.Sleep(15 * time.Second)
		ready(503, `"not_answering": 2`)
		back, err := s.network.Serve("b2:8000", &engine{})
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		time.Sleep(15 * time.Second)
		ready(200, `"serving": 1`)
		s.stop()
	})
}

func TestOB04RecordsSayWhyAfterAHitAndAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		synctest.Wait()
		_, first, _ := s.chat(longPrompt("A"), "")
		_, second, _ := s.chat(longPrompt("A"), "")
		holder := first.Get("X-Warmroute-Backend")
		if holder == "" || second.Get("X-Warmroute-Backend") != holder {
			t.Errorf("the same prompt went to %q and %q", holder, second.Get("X-Warmroute-Backend"))
		}
		s.engines[holder].Close()
		synctest.Wait()
		status, third, _ := s.chat(longPrompt("A"), "")
		if status != 200 || third.Get("X-Warmroute-Backend") == holder {
			t.Errorf("after the holder died: %d from %s", status, third.Get("X-Warmroute-Backend"))
		}
		records := s.records()
		if len(records) != 3 {
			t.Fatalf("%d access records for 3 requests", len(records))
		}
		hit, failover := records[1], records[2]
		if hit["reason"] != "longest_match" || hit["backend"] != holder || hit["matched_blocks"] != hit["prompt_blocks"] || hit["in_flight"] != 0.0 || hit["attempts"] != 1.0 || hit["cached_tokens"] != 64.0 {
			t.Errorf("record of the hit: %v", hit)
		}
		if why, _ := hit["why"].(string); !strings.HasPrefix(why, "longest match: "+holder) {
			t.Errorf("why: %v", hit["why"])
		}
		if failover["attempts"] != 2.0 || failover["backend"] == holder || failover["matched_blocks"] != 0.0 {
			t.Errorf("record of the failover: %v", failover)
		}
		status, body := s.admin("/debug/decisions?n=1")
		if status != 200 || !strings.Contains(body, `"attempts": 2`) || !strings.Contains(body, fmt.Sprint(failover["decision_id"])) {
			t.Errorf("/debug/decisions: %d %s", status, body)
		}
	})
}

func TestAU05NoKeyInLogsMetricsStateAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "hunter2"
		s := start(t, func(c *config.Config) { c.KeySeed = secret }, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		var shown strings.Builder
		for _, path := range []string{"/v1/chat/completions", "/v1/chat/completions?api_key=" + secret, "/" + secret, "/v1/models/" + secret[:3]} {
			for _, body := range []string{`{"model":"m","messages":[{"role":"user","content":"` + secret + `"}]}`, `{"model":"nope","k":"` + secret + `"}`, `{"` + secret, ``} {
				_, header, answer := s.request(http.MethodPost, "http://"+dataAddr+path, body,
					"Content-Type", "application/json", "Authorization", "Bearer "+secret, "X-Api-Key", secret, "Cookie", "k="+secret)
				fmt.Fprintln(&shown, header, answer)
			}
		}
		s.engines["b1:8000"].Close()
		_, header, answer := s.chat("hi", "", "Authorization", "Bearer "+secret)
		fmt.Fprintln(&shown, header, answer)
		for _, path := range []string{"/", "/metrics", "/readyz", "/debug/state", "/debug/decisions"} {
			_, body := s.admin(path)
			shown.WriteString(body)
		}
		s.stop()
		shown.WriteString(s.log.String())
		for line := range strings.Lines(shown.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("a secret is shown: %s", line)
			}
		}
		if len(s.records()) != 17 {
			t.Errorf("%d access records for 17 requests", len(s.records()))
		}
	})
}

// series returns the names of all our series, as a scrape sees them.
func series(body string) []string {
	var all []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "warmroute_") {
			all = append(all, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	slices.Sort(all)
	return all
}

func TestOB01RequestsOfAnyKindAddNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		s.chat("hi", "")
		s.request(http.MethodPost, "http://"+dataAddr+"/endpoints/x/invocations", "{}")
		_, body := s.admin("/metrics")
		before := series(body)
		random := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			word := fmt.Sprintf("x%d", random.Uint64())
			method, path, model := http.MethodPost, "/v1/chat/completions", word
			switch random.IntN(5) {
			case 0:
				method = strings.ToUpper(word)
			case 1:
				path = "/" + word
			case 2:
				path = "/v1/models/" + word
			case 3:
				path = "/endpoints/" + word + "/invocations"
			}
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+dataAddr+path, strings.NewReader(`{"model":"`+model+`","messages":[]}`))
			if err != nil {
				t.Fatal(err)
			}
			w := &discard{header: make(http.Header)}
			s.server.Handler.ServeHTTP(w, req)
			if w.status < 400 {
				t.Fatalf("%s %s: %d", method, path, w.status)
			}
		}
		_, body = s.admin("/metrics")
		if after := series(body); !slices.Equal(before, after) {
			t.Errorf("%d series became %d", len(before), len(after))
		}
	})
}

// discard is a response that only keeps its status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { d.WriteHeader(200); return len(p), nil }
func (d *discard) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

var documentedMetric = regexp.MustCompile("`(warmroute_[a-z0-9_]+)`")

func TestTheManualListsTheMetricsOfAStartedServer(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, m := range documentedMetric.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	exposed := make(map[string]bool)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, withoutRedis, map[string]http.Handler{"b1:8000": newDouble(t, nil)})
		if _, err := s.telemetry.ReadCertificates("data", time.Now); err != nil { // as a port that is encrypted does
			t.Fatal(err)
		}
		s.telemetry.Stepped("default", new(tuning.Step)) // as automatic mode does
		time.Sleep(10 * time.Second)
		for range 2 { // a match, so that there is a calibration
			s.chat(longPrompt("A"), `,"max_tokens":1`)
		}
		s.fault("b1:8000", `{"restart":true}`) // and a horizon
		time.Sleep(10 * time.Second)
		_, body := s.admin("/metrics")
		for line := range strings.Lines(body) {
			if rest, ok := strings.CutPrefix(line, "# TYPE warmroute_"); ok {
				name, _, _ := strings.Cut(rest, " ")
				exposed["warmroute_"+name] = true
			}
		}
	})
	if len(exposed) < 30 {
		t.Errorf("only %d metrics are exposed", len(exposed))
	}
	for name := range exposed {
		if !documented[name] {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
	for name := range documented {
		if !exposed[name] {
			t.Errorf("docs/metrics.md lists %s, which a started server does not expose", name)
		}
	}
}

func TestML07ChangesUnderTraffic(t *testing.T) {
	addresses := []string{"b1:8000", "b2:8000", "b3:8000", "b4:8000"}
	engines := make(map[string]http.Handler)
	for _, a := range addresses {
		engines[a] = &engine{}
	}
	s := start(t, nil, engines)
	client := s.network.Client()
	pool := s.Router().Pools()[0]
	var (
		begin  = time.Now()
		wg     sync.WaitGroup
		served atomic.Int64
	)
	// A busy machine needs longer for enough of it.
	goesOn := func() bool {
		lasted := time.Since(begin)
		return lasted < 1500*time.Millisecond || served.Load() < 50 && lasted < 30*time.Second
	}
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; goesOn(); i++ {
				body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, longPrompt(fmt.Sprint(worker, i%5)))
				resp, err := client.Post("http://"+dataAddr+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 && resp.StatusCode != 503 {
					t.Errorf("%d %v %s", resp.StatusCode, err, answer)
				}
				if resp.StatusCode == 200 {
					served.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		random := rand.New(rand.NewPCG(3, 4))
		for goesOn() {
			specs := []backends.Spec{{URL: "http://" + addresses[0], Rank: backends.NoRank}}
			for _, a := range addresses[1:] {
				if random.IntN(2) == 0 {
					specs = append(specs, backends.Spec{URL: "http://" + a, Rank: backends.NoRank, Weight: 1 + random.Float64()})
				}
			}
			if _, err := pool.SetBackends(specs); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for i := 0; goesOn(); i++ {
			c := router.DefaultConfig()
			c.Strategy = router.Strategies()[i%len(router.Strategies())]
			c.ConcurrencyThreshold = 1 + i%64
			if err := pool.SetConfig(c); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for goesOn() {
			for _, path := range []string{"/metrics", "/debug/state", "/debug/decisions", "/readyz"} {
				if status, body := s.admin(path); status != 200 && path != "/readyz" {
					t.Errorf("%s: %d %.200s", path, status, body)
				}
			}
		}
	})
	wg.Wait()
	s.stop()
	if served.Load() < 50 {
		t.Errorf("only %d requests were served", served.Load())
	}
	for _, b := range pool.Status(time.Now()) {
		if b.InFlight != 0 {
			t.Errorf("%s has %d in flight at the end", b.Backend.ID, b.InFlight)
		}
	}
}

func TestAFailingServerEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		broken := &brokenListener{Listener: s.listener}
		s.stop()
		g := &Gateway{
			config: s.config, logger: s.logger, router: s.router, transport: s.transport, poller: s.poller, telemetry: s.telemetry, routing: s.routing, operators: s.operators,
			listener: broken, adminListener: s.adminListener,
		}
		g.server, g.adminServer = g.newServer(nil, nil), g.newServer(nil, nil)
		if err := g.Run(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("Run = %v, want %v", err, errBroken)
		}
	})
}

var errBroken = errors.New("no more connections")

type brokenListener struct{ net.Listener }

func (*brokenListener) Accept() (net.Conn, error) { return nil, errBroken }

func TestTheDataPortSpeaksPipelinedHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		conn, err := s.network.DialContext(t.Context(), "tcp", dataAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for range 2 { // one connection, two requests
			io.WriteString(conn, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}
			io.Copy(io.Discard, resp.Body)
		}
	})
}

// Requests that are cut at the end of the grace say so, to their clients and in their
// records: those that stream, and those that have no answer yet.
func TestSD03WhatIsCutSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "silent") {
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		s := start(t, func(c *config.Config) {
			c.Timeouts.ShutdownDelay, c.Timeouts.ShutdownGrace = time.Second, 3*time.Second
			c.Pools[0].Models = []config.Model{{Name: "m"}}
		}, map[string]http.Handler{"b1:8000": slow})
		synctest.Wait()
		const said = "cut by the shutdown (timeouts.shutdown_grace)"
		var clients sync.WaitGroup
		clients.Go(func() {
			_, _, body := s.chat("hi", `,"stream":true`)
			if !strings.Contains(body, said) || !strings.HasSuffix(body, "BROKEN OFF") {
				t.Errorf("the stream got %q", body)
			}
		})
		clients.Go(func() {
			if status, _, body := s.chat("silent", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, said) {
				t.Errorf("got %d %s", status, body)
			}
		})
		synctest.Wait()
		s.stop()
		clients.Wait()
		records := s.records()
		for _, r := range records {
			if r["result"] != "router_error" || r["error"] != said {
				t.Errorf("recorded: %v, %v", r["result"], r["error"])
			}
		}
		if len(records) != 2 || !strings.Contains(s.log.String(), `"msg":"stopped"`) {
			t.Errorf("%d records; logged: %s", len(records), s.log)
		}
	})
}

// A path that the mux would tidy up by a redirect is nobody's, in the dialect and with
// a record.
func TestPathsAreNotTidied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		paths := []string{"//v1/chat/completions", "/v1/../sleep", "/v1/./models", "/v1/chat//completions", "/sleep/.."}
		for _, p := range paths {
			status, header, body := s.request(http.MethodPost, "http://"+dataAddr+p, "{}")
			if status != http.StatusNotFound || !strings.Contains(body, `"code":"not_found"`) || header.Get("X-Request-Id") == "" {
				t.Errorf("%s: %d %s", p, status, body)
			}
		}
		synctest.Wait()
		if n := len(s.records()); n != len(paths) {
			t.Errorf("%d records of %d requests", n, len(paths))
		}
		if status, _, body := s.request(http.MethodGet, "http://"+dataAddr+"/v1/models/", ""); status != http.StatusNotFound || !strings.Contains(body, "model") {
			t.Errorf("got %d %s", status, body)
		}
	})
}
