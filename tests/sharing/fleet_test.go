package sharing

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/gateway"
	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// patience bounds every wait. It is for machines that are very busy.
const patience = 30 * time.Second

// full says that tests are to run at their full size.
func full() bool { return os.Getenv("WARMROUTE_FULL") != "" }

// within is the most that something may take. On a machine that others use as well, as it is
// by default, that is five times as much as it should.
func within(d time.Duration) time.Duration {
	if full() {
		return d
	}
	return 5 * d
}

// await waits for something that comes about by itself, and returns how long it took.
func await(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Since(began) > patience {
			t.Fatalf("it did not come about in %v that %s", patience, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// paced calls do n times at a rate per second, each call on its own, and returns when all
// have.
func paced(n, rate int, do func(i int)) {
	var calls sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		calls.Go(func() { do(i) })
		<-tick.C
	}
	calls.Wait()
}

// engines are what all routers of a fleet have behind them, by host:port as routers know
// them; names are the same in every run.
type engines map[string]string

// stubs starts engines that answer at once and cache nothing.
func stubs(t testing.TB, n int, handler http.HandlerFunc) engines {
	t.Helper()
	all := make(engines)
	for i := range n {
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		all[fmt.Sprintf("b%d:80", i)] = web.Listener.Addr().String()
	}
	return all
}

// briefly answers any chat with one word.
func briefly(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`)
}

// door is one router process of a fleet, as the program starts it.
type door struct {
	t          testing.TB
	url, admin string
	client     *http.Client
	stop       func()
}

// over shares the index of a router through a server.
func over(server *redistest.Server) func(*config.Config) {
	return func(c *config.Config) { c.Redis.Addresses = []string{server.Addr} }
}

// open starts a router in front of engines and stops it when the test ends, or before.
func open(t testing.TB, behind engines, configure func(*config.Config)) *door {
	t.Helper()
	var urls []string
	for name := range behind {
		urls = append(urls, "http://"+name)
	}
	slices.Sort(urls)
	c, _, err := config.FromBackends(urls)
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Pools[0].Models = []config.Model{{Name: "sim"}}
	c.AllowBackendPin = true
	c.Scrape.Enabled = false
	if configure != nil {
		configure(c)
	}
	g, err := gateway.New(gateway.Options{
		Config: c,
		DialContext: func(ctx context.Context, network, name string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, behind[name])
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	d := &door{
		t: t, url: "http://" + g.Addr().String(), admin: "http://" + g.AdminAddr().String(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: patience},
	}
	d.stop = sync.OnceFunc(func() {
		d.client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("router: %v", err)
		}
	})
	t.Cleanup(d.stop)
	return d
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// reply is where a request went, and why.
type reply struct {
	status          int
	backend, reason string
	predicted       int // cached tokens
}

// chat sends a chat request that is not streamed. Headers are pairs of name and value.
func (d *door) chat(messages []message, headers ...string) (reply, error) {
	body, err := json.Marshal(map[string]any{"model": "sim", "messages": messages, "max_tokens": 1})
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, d.url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	r := reply{status: resp.StatusCode, backend: resp.Header.Get("X-Warmroute-Backend"), reason: resp.Header.Get("X-Warmroute-Reason")}
	r.predicted, _ = strconv.Atoi(resp.Header.Get("X-Warmroute-Predicted-Cached-Tokens"))
	return r, err
}

// mustChat is chat for requests that have to go well.
func (d *door) mustChat(messages []message, headers ...string) reply {
	d.t.Helper()
	r, err := d.chat(messages, headers...)
	if err != nil || r.status != http.StatusOK {
		d.t.Errorf("chat: %d, %v", r.status, err)
	}
	return r
}

// state is what of /debug/state matters here.
type state struct {
	Sharing struct {
		State     string
		Peers     int
		Restoring int
		Failures  map[string]int
	}
	Pools []struct {
		Backends []struct {
			ID       string
			InFlight int `json:"in_flight"`
			Blocks   int `json:"index_blocks"`
		}
	}
}

func (d *door) state() (s state) {
	d.t.Helper()
	resp, err := d.client.Get(d.admin + "/debug/state") //nolint:noctx // the client has a timeout
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// inFlight is how many requests the router counts on a backend.
func (d *door) inFlight(id string) int {
	d.t.Helper()
	for _, b := range d.state().Pools[0].Backends {
		if b.ID == id {
			return b.InFlight
		}
	}
	d.t.Fatalf("there is no backend %s", id)
	return 0
}

// shares reports whether the router knows of the others, and has read what there was.
func (d *door) shares() bool {
	s := d.state().Sharing
	return s.State == "fresh" && s.Restoring == 0
}

// awaitShared waits until all of them share, and have heard of each other.
func awaitShared(t testing.TB, doors ...*door) {
	t.Helper()
	for _, d := range doors {
		await(t, "routers share", func() bool { return d.shares() && d.state().Sharing.Peers >= len(doors)-1 })
	}
}

var words = strings.Fields("the pump valve reports pressure when every second engine in hall seven stops before noon and nobody has checked that")

// prose is text of about so many bytes that depends on the seed from its first word on.
func prose(seed uint64, size int) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	var text strings.Builder
	fmt.Fprintf(&text, "Report %d:", seed)
	for text.Len() < size {
		text.WriteString(" " + words[rng.IntN(len(words))])
	}
	return text.String()
}

// question is a conversation's first turn.
func question(seed uint64, size int) []message { return []message{{"user", prose(seed, size)}} }

// further is the turn after one. It is long enough for routers that know nothing of each
// other not to agree by chance: what they go by then is the prompt's first 4,096 bytes.
func further(before []message) []message {
	return append(slices.Clone(before), message{"assistant", "Yes."}, message{"user", prose(0, 2000)})
}
