package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/discoverytest"
)

func TestMain(m *testing.M) {
	// The resolver's own state is made at its first use, and must not belong to the first
	// test with a clock of its own: every test uses it.
	_, _ = (&net.Resolver{PreferGo: true}).LookupHost(context.Background(), "localhost")
	goleak.VerifyTestMain(m)
}

// Names with a dot at their end, so that the search list of the machine does not matter.
const engines = "engines.test."

// asking returns how a server is asked by tests.
func asking(s *server, c Config) Config {
	c.Name, c.Resolver = engines, s.addr
	if c.Interval == 0 {
		c.Interval = 50 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 200 * time.Millisecond
	}
	return c
}

// world is a name with addresses.
type world struct {
	*server
	broken mood
}

func (w *world) Source(t *testing.T) discovery.Source {
	t.Helper()
	return source(t, asking(w.server, Config{Port: 8000}))
}

func source(t *testing.T, c Config) *Source {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) Name(t *testing.T, addresses ...string) {
	t.Helper()
	var records []dnsmessage.ResourceBody
	for _, a := range addresses {
		records = append(records, address(netip.MustParseAddrPort(a).Addr().String()))
	}
	w.set(engines, records...)
}

func (w *world) Break(*testing.T) { w.mood(engines, w.broken) }

func (w *world) Silence(*testing.T) { w.mood(engines, silent) }

func TestConformance(t *testing.T) {
	for name, broken := range map[string]mood{"fails": fails, "refuses": refuses, "nonsense": nonsense, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			discoverytest.Run(t, func(t *testing.T) discoverytest.World { return &world{newServer(t), broken} })
		})
	}
}

// services is a world with SRV records.
type services struct{ world }

func (w *services) Source(t *testing.T) discovery.Source {
	t.Helper()
	return source(t, asking(w.server, Config{Type: SRV}))
}

func (w *services) Name(t *testing.T, addresses ...string) {
	t.Helper()
	var records []dnsmessage.ResourceBody
	for i, text := range addresses {
		a := netip.MustParseAddrPort(text)
		target := fmt.Sprintf("pod-%d.engines.test.", i)
		w.set(target, address(a.Addr().String()), address(fmt.Sprintf("fd00::%d", i+1)))
		records = append(records, srv(0, 33, target, int(a.Port())))
	}
	w.set(engines, records...)
}

func TestConformanceOfServices(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T) discoverytest.World { return &services{world{newServer(t), fails}} })
}

// look asks once.
func look(t *testing.T, s *Source) (urls []string, err error) {
	t.Helper()
	list, err := s.look(t.Context())
	if list == nil {
		return nil, err
	}
	urls = []string{}
	for _, spec := range list {
		urls = append(urls, spec.URL)
	}
	return urls, err
}

func expect(t *testing.T, s *Source, want ...string) {
	t.Helper()
	got, err := look(t, s)
	if err != nil {
		t.Error(err)
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAddresses(t *testing.T) {
	server := newServer(t)
	server.set(engines, address("10.0.0.2"), address("fd00::1"), address("10.0.0.1"), address("10.0.0.2"))
	expect(t, source(t, asking(server, Config{Port: 8000})), "http://10.0.0.1:8000", "http://10.0.0.2:8000")
	expect(t, source(t, asking(server, Config{Port: 8000, Type: AAAA})), "http://[fd00::1]:8000")
	form := discovery.Form{Scheme: "https", Path: "/engine/", Weight: 2, ConcurrencyThreshold: 64, DataParallelRanks: 2}
	list, err := source(t, asking(server, Config{Port: 8443, Type: AAAA, Form: form})).look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rank := func(r int) backends.Spec {
		return backends.Spec{URL: "https://[fd00::1]:8443/engine", Rank: r, Weight: 2, ConcurrencyThreshold: 64}
	}
	if diff := cmp.Diff([]backends.Spec{rank(0), rank(1)}, list); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A name that does not exist, or has no records of the type, has no addresses: an answer.
func TestNoAddresses(t *testing.T) {
	server := newServer(t)
	for _, typ := range []Type{A, AAAA, SRV} {
		c := asking(server, Config{Type: typ})
		if typ != SRV {
			c.Port = 8000
		}
		server.mood(engines, unknown)
		expect(t, source(t, c))
		server.set(engines)
		expect(t, source(t, c))
	}
}

// More addresses than fit into a packet come over TCP.
func TestManyAddresses(t *testing.T) {
	server := newServer(t)
	var records []dnsmessage.ResourceBody
	for i := range 300 {
		records = append(records, address(fmt.Sprintf("10.0.%d.%d", i/256, i%256)))
	}
	server.set(engines, records...)
	got, err := look(t, source(t, asking(server, Config{Port: 8000, Timeout: 5 * time.Second})))
	if err != nil || len(got) != 300 {
		t.Errorf("%d addresses, %v", len(got), err)
	}
	if server.questions("tcp") == 0 {
		t.Error("nothing was asked over TCP")
	}
}

func TestServices(t *testing.T) {
	server := newServer(t)
	server.set("a.test.", address("10.0.0.1"), address("fd00::1"))
	server.set("b.test.", address("fd00::2"))
	server.set("c.test.", address("10.0.0.3"))
	server.set("spare.test.", address("10.0.0.4"))
	server.set(engines,
		srv(10, 1, "a.test.", 8000), srv(10, 9, "a.test.", 8001), srv(10, 0, "b.test.", 8000), srv(10, 0, "c.test.", 8000),
		srv(10, 0, "gone.test.", 8000), srv(20, 0, "spare.test.", 8000))
	s := source(t, asking(server, Config{Type: SRV}))
	all := []string{"http://10.0.0.1:8000", "http://10.0.0.1:8001", "http://10.0.0.3:8000", "http://[fd00::2]:8000"}
	expect(t, s, all...)
	// One that cannot be looked up keeps its address; the others are looked up all the same.
	server.set("a.test.", address("10.0.0.9"))
	server.mood("c.test.", fails)
	got, err := look(t, s)
	if err == nil || !strings.Contains(err.Error(), "c.test") {
		t.Errorf("error %v, want one of c.test", err)
	}
	all[0], all[1], all[2] = "http://10.0.0.3:8000", "http://10.0.0.9:8000", "http://10.0.0.9:8001"
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	server.set(engines, srv(0, 0, ".", 0)) // RFC 2782: decidedly not available
	expect(t, s)
}

// At a name that moves, the new address is there with the next lookup, whatever its records
// say of how long they may be kept: those of the double say a day.
func TestDI14NameThatMoves(t *testing.T) {
	server := newServer(t)
	s := source(t, asking(server, Config{Port: 8000}))
	server.set(engines, address("10.0.0.1"))
	expect(t, s, "http://10.0.0.1:8000")
	server.set(engines, address("10.0.0.2"))
	expect(t, s, "http://10.0.0.2:8000")
}

// Names are looked up at the interval give or take a tenth, and a server that says nothing
// is given the timeout.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := source(t, Config{Name: engines, Port: 8000, Interval: 30 * time.Second, Timeout: 2 * time.Second, Resolver: "10.0.0.1:53"})
		// A connection in memory on which nobody ever answers.
		s.resolver.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				buf := make([]byte, 1<<10)
				for {
					if _, err := theirs.Read(buf); err != nil {
						return
					}
				}
			}()
			return ours, nil
		}
		var told []time.Duration
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s.Run(ctx, func(list []backends.Spec, err error) {
			if list != nil || err == nil || !strings.Contains(err.Error(), "i/o timeout") {
				t.Errorf("%v, %v", list, err)
			}
			told = append(told, time.Since(began))
		})
		if len(told) < 17 || len(told) > 21 {
			t.Errorf("%d lookups in 10 minutes, want one each 30 s and the 2 s it takes", len(told))
		}
		last := -30 * time.Second
		for _, at := range told {
			if gap := at - last; gap < 29*time.Second || gap > 35*time.Second {
				t.Errorf("a lookup ended after %v, want 29 to 35 s", gap)
			}
			last = at
		}
		time.Sleep(time.Minute) // what the resolver has left running ends
	})
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"":                                      {Name: "engines.default.svc.cluster.local.", Port: 8000},
		"name: is missing":                      {Port: 8000},
		`name: "a b" is not a name`:             {Name: "a b", Port: 8000},
		`name: "http://a" is not a name`:        {Name: "http://a", Port: 8000},
		`name: "10.0.0.1" is an address`:        {Name: "10.0.0.1", Port: 8000},
		"port: 0 is not in 1..65535":            {Name: "a"},
		"port: 80 is not used":                  {Name: "a", Port: 80, Type: SRV},
		`type: "mx" is not one of a, aaaa, srv`: {Name: "a", Port: 80, Type: "mx"},
		`resolver: "10.0.0.1" is not host:port`: {Name: "a", Port: 80, Resolver: "10.0.0.1"},
		"interval: -1ns is negative":            {Name: "a", Port: 80, Interval: -1},
		"timeout: -1ns is negative":             {Name: "a", Port: 80, Timeout: -1},
		`scheme: "ftp" is not http or https`:    {Name: "a", Port: 80, Form: discovery.Form{Scheme: "ftp"}},
	} {
		_, err := New(c)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
