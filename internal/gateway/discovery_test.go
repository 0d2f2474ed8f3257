package gateway

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/internal/config"
)

// script is a source that says what it is told to.
type script struct{ answers chan scripted }

type scripted struct {
	list []backends.Spec
	err  error
}

func (s script) Run(ctx context.Context, tell discovery.Tell) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-s.answers:
			tell(a.list, a.err)
		}
	}
}

// found is a backend of the doubles as a source names it: "b1", "!b1" when it is not
// ready, "b1=x" when it is the instance x.
func found(names ...string) scripted {
	list := []backends.Spec{}
	for _, name := range names {
		name, unready := strings.CutPrefix(name, "!")
		name, instance, _ := strings.Cut(name, "=")
		list = append(list, backends.Spec{URL: "http://" + name + ":8000", Rank: backends.NoRank, Unready: unready, Instance: instance})
	}
	return scripted{list: list}
}

// say makes the source give an answer, and returns when it is in force.
func (s script) say(a scripted) {
	s.answers <- a
	synctest.Wait()
}

// startFound runs a gateway whose backends are only what a source names.
func startFound(t *testing.T, engines map[string]http.Handler) (*stack, script) {
	t.Helper()
	source := script{make(chan scripted)}
	s := startWith(t, func(c *config.Config) {
		c.Pools[0].Backends = nil
		c.Pools[0].Discovery.Files = []config.FileDiscovery{{Path: "unused.json", Interval: time.Second}}
	}, engines, func(*config.Pool) ([]discovery.Named, error) {
		return []discovery.Named{{Name: "static", Source: discovery.Static(nil)}, {Name: "script", Source: source}}, nil
	})
	return s, source
}

// served sends a request and returns which backend answered, and what it was predicted to
// have cached; "" when the request failed.
func (s *stack) served(prompt string) (backend, cached string) {
	s.t.Helper()
	status, header, body := s.chat(prompt, "")
	if status != http.StatusOK {
		s.t.Logf("%d %s", status, body)
		return "", ""
	}
	return header.Get("X-Warmroute-Backend"), header.Get("X-Warmroute-Predicted-Cached-Tokens")
}

// TestDI01: a backend that is ending gets no new requests from the moment that discovery
// says so, while it still answers probes; what runs there goes on to its end, also when the
// backend has long been forgotten.
func TestDI01TerminatingBackendsLeaveRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &engine{}
		s, source := startFound(t, map[string]http.Handler{"b1:8000": first, "b2:8000": &engine{}})
		source.say(found("b1"))
		time.Sleep(2 * time.Second)
		stream := make(chan string, 1)
		go func() {
			_, _, body := s.chat("long", `,"stream":true,"max_tokens":300`)
			stream <- body
		}()
		time.Sleep(2 * time.Second)
		source.say(found("!b1", "b2"))
		time.Sleep(2 * time.Second) // b2 says what it serves
		for range 5 {
			if backend, _ := s.served("new"); backend != "b2:8000" {
				t.Errorf("a new request went to %q", backend)
			}
		}
		source.say(found("b2"))
		time.Sleep(2 * time.Minute)
		if n := len(s.Router().Pools()[0].Backends()); n != 1 {
			t.Errorf("%d backends, want 1", n)
		}
		if body := <-stream; strings.Count(body, `"content":"a"`) != 300 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("the stream was cut: %d tokens, …%s", strings.Count(body, `"content":"a"`), body[max(0, len(body)-200):])
		}
		if requests, cancelled := first.counts(); requests != 1 || cancelled != 0 {
			t.Errorf("b1 had %d requests, %d of them cancelled", requests, cancelled)
		}
		for _, want := range []string{`"backend not ready"`, `"backend left"`, `"backend removed"`} {
			if n := strings.Count(s.log.String(), want); n != 1 {
				t.Errorf("%d lines say %s", n, want)
			}
		}
	})
}

// TestDI03: a source's word counts although the engine's own says that all is well, and a
// backend that was not ready for a while has kept its cache.
func TestDI03NotReadyBackendsGetNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, source := startFound(t, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		source.say(found("b1"))
		time.Sleep(2 * time.Second)
		for range 3 {
			s.served(longPrompt("A"))
		}
		source.say(found("!b1"))
		if status, _, body := s.chat("x", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "1 unreachable") {
			t.Errorf("nobody is ready: %d %s", status, body)
		}
		if status, body := s.admin("/readyz"); status != http.StatusServiceUnavailable {
			t.Errorf("readyz: %d %s", status, body)
		}
		source.say(found("!b1", "b2"))
		time.Sleep(time.Hour) // probes find nothing wrong with b1
		if backend, _ := s.served(longPrompt("A")); backend != "b2:8000" {
			t.Errorf("served by %q while b1 is not ready", backend)
		}
		source.say(found("b1"))
		if backend, cached := s.served(longPrompt("A")); backend != "b1:8000" || cached == "0" || cached == "" {
			t.Errorf("ready again: served by %q with %q tokens cached", backend, cached)
		}
	})
}

// TestCacheOfWhoReturns: who returns within a minute has kept what is known of its cache;
// who returns later, or is another engine at the same address, has not.
func TestCacheOfWhoReturns(t *testing.T) {
	for name, c := range map[string]struct {
		away time.Duration
		back string
		kept bool
	}{
		"soon":                      {59 * time.Second, "b1=pod-a", true},
		"soon, without an instance": {59 * time.Second, "b1", true},
		"late":                      {61 * time.Second, "b1=pod-a", false},
		"another":                   {59 * time.Second, "b1=pod-b", false},
		"another at once":           {0, "b1=pod-b", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, source := startFound(t, map[string]http.Handler{"b1:8000": &engine{}})
				source.say(found("b1=pod-a"))
				time.Sleep(2 * time.Second)
				for range 3 {
					s.served(longPrompt("A"))
				}
				if c.away > 0 {
					source.say(found())
					time.Sleep(c.away)
				}
				source.say(found(c.back))
				time.Sleep(2 * time.Second)
				backend, cached := s.served(longPrompt("A"))
				told := !s.Router().Pools()[0].Status(time.Now())[0].Horizon.IsZero() // other routers, too
				if want := strings.HasPrefix(name, "another"); told != want {
					t.Errorf("its horizon has moved: %v, want %v", told, want)
				}
				if backend != "b1:8000" || (cached != "0") != c.kept {
					t.Errorf("served by %q with %q tokens cached, want them: %v", backend, cached, c.kept)
				}
			})
		})
	}
}

// A source that fails is told of once and keeps its backends; one that says that there are
// none is believed.
func TestSourceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, source := startFound(t, map[string]http.Handler{"b1:8000": &engine{}})
		source.say(found("b1"))
		time.Sleep(2 * time.Second)
		for range 3 {
			source.say(scripted{err: errors.New("lookup b1: server misbehaving")})
			time.Sleep(time.Hour)
		}
		if backend, _ := s.served("x"); backend != "b1:8000" {
			t.Errorf("served by %q", backend)
		}
		_, metrics := s.admin("/metrics")
		for _, want := range []string{
			`warmroute_discovery_up{pool="default",source="script"} 0`,
			`warmroute_discovery_backends{pool="default",source="script"} 1`,
			`warmroute_discovery_errors_total{pool="default",source="script"} 3`,
			`warmroute_discovery_age_seconds{pool="default",source="script"} 10802`,
			`warmroute_discovery_age_seconds{pool="default",source="static"} 0`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		source.say(found())
		if status, _, _ := s.chat("x", ""); status != http.StatusServiceUnavailable {
			t.Errorf("no backend is left: %d", status)
		}
		for line, want := range map[string]int{
			"discovery fails": 1, "server misbehaving": 1, "discovery works again": 1, "no backend of the pool is left": 1,
		} {
			if n := strings.Count(s.log.String(), line); n != want {
				t.Errorf("%d lines say %q, want %d", n, line, want)
			}
		}
	})
}

// Readiness waits until every source has answered once, though listed backends can serve, and
// not for ever for one that finds nothing out.
func TestReadinessAwaitsDiscovery(t *testing.T) {
	startMixed := func(t *testing.T) (*stack, script) {
		source := script{make(chan scripted)}
		s := startWith(t, func(c *config.Config) {
			c.Pools[0].Discovery.Files = []config.FileDiscovery{{Path: "unused.json", Interval: time.Second}}
		}, map[string]http.Handler{"b1:8000": &engine{}}, func(p *config.Pool) ([]discovery.Named, error) {
			list := []backends.Spec{{URL: p.Backends[0].URL, Rank: backends.NoRank, Weight: 1}}
			return []discovery.Named{{Name: "static", Source: discovery.Static(list)}, {Name: "script", Source: source}}, nil
		})
		synctest.Wait()
		return s, source
	}
	ready := func(s *stack, want int, text string) {
		s.t.Helper()
		if status, body := s.admin("/readyz"); status != want || !strings.Contains(body, text) {
			s.t.Errorf("readiness: %d, want %d with %s\n%s", status, want, text, body)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, source := startMixed(t)
		ready(s, 503, `"starting"`)
		ready(s, 503, `"serving": 1`)
		source.say(scripted{err: errors.New("refused")})
		ready(s, 503, `"discovering": true`)
		source.say(found())
		ready(s, 200, `"ready"`)
		source.say(scripted{err: errors.New("refused")}) // the last good answer holds on
		ready(s, 200, `"discovering": false`)
	})
	synctest.Test(t, func(t *testing.T) {
		s, _ := startMixed(t)
		time.Sleep(firstAnswers - time.Second)
		ready(s, 503, `"starting"`)
		time.Sleep(time.Second)
		ready(s, 200, `"ready"`)
	})
}

// What is kept for a backend goes with it.
func TestNothingIsKeptOfWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, source := startFound(t, map[string]http.Handler{"b1:8000": &engine{}})
		source.say(found("b1", "b2")) // nobody listens at b2
		time.Sleep(30 * time.Second)
		source.say(found("b1"))
		time.Sleep(2 * time.Minute)
		s.silent.backends.Range(func(b, _ any) bool {
			t.Errorf("%s is remembered as silent", b.(*backends.Backend).ID)
			return true
		})
	})
}

// TestFileDiscovery: a file is read at the start, and each of its changes is followed.
func TestFileDiscovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "targets.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"targets": ["b1:8000"], "labels": {"weight": "3"}}]`)
	s := start(t, func(c *config.Config) {
		c.Pools[0].Backends = nil
		c.Pools[0].Discovery.Files = []config.FileDiscovery{{Path: path, Interval: time.Second}}
	}, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
	servedBy := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			status, header, body := s.chat("x", "")
			got := header.Get("X-Warmroute-Backend")
			if status == http.StatusOK && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d by %q, want %q: %s", status, got, want, body)
			}
		}
	}
	servedBy("b1:8000")
	if w := s.Router().Pools()[0].Backends()[0].Weight(); w != 3 {
		t.Errorf("weight %v, want 3", w)
	}
	write(`[{"targets": ["b2:8000"]}]`)
	servedBy("b2:8000")
	write(`[{"targets": ["b1:8000"]`) // refused, and logged
	for !strings.Contains(s.log.String(), "discovery fails") {
		time.Sleep(20 * time.Millisecond)
	}
	servedBy("b2:8000")
	write(`[{"targets": ["b1:8000"]}]`)
	servedBy("b1:8000")
}

// A backend that registers is one source among the others: it outlives changes of the list,
// keeps its cache if it registers again in time, and is one with the same backend found
// elsewhere.
func TestRegisteredBackendsAreASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, source := startFound(t, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		call := func(method, body string) {
			t.Helper()
			if status, _, answer := s.request(http.MethodPost, "http://"+adminAddr+"/warmroute.v1.AdminService/"+method, body, "Content-Type", "application/json"); status != http.StatusOK {
				t.Errorf("%s %s: %d %s", method, body, status, answer)
			}
		}
		register := `{"pool":"default","url":"http://b1:8000","lease":"3600s"}`
		source.say(found("b2"))
		call("RegisterBackend", register)
		time.Sleep(2 * time.Second)
		pin := func() (backend, cached string) {
			source.say(found()) // so that b1 is the only one
			backend, cached = s.served(longPrompt("A"))
			source.say(found("b2"))
			return backend, cached
		}
		for range 3 {
			if backend, _ := pin(); backend != "b1:8000" {
				t.Fatalf("served by %q", backend)
			}
		}
		call("DeregisterBackend", `{"pool":"default","backend":"b1:8000"}`)
		if backend, _ := s.served("x"); backend != "b2:8000" {
			t.Errorf("after b1 left: served by %q", backend)
		}
		time.Sleep(30 * time.Second)
		call("RegisterBackend", register)
		if backend, cached := pin(); backend != "b1:8000" || cached == "0" {
			t.Errorf("registered again: served by %q with %q tokens cached", backend, cached)
		}
		if err := s.Reload(reloaded(t, []string{"http://b1:8000"}, func(c *config.Config) { c.Pools[0].Discovery = s.config.Pools[0].Discovery })); err != nil {
			t.Fatal(err)
		}
		call("DeregisterBackend", `{"pool":"default","backend":"b1:8000"}`)
		if backend, cached := pin(); backend != "b1:8000" || cached == "0" {
			t.Errorf("listed now: served by %q with %q tokens cached", backend, cached)
		}
	})
}
