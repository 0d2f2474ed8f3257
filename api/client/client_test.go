package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/anthropic"
	"github.com/warmroute/warmroute/api/client"
	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/memhttp"
	"github.com/warmroute/warmroute/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a router and its engines on a network in memory.
type fleet struct {
	t       testing.TB
	client  *client.Client
	http    *http.Client
	pool    *router.Pool
	mu      sync.Mutex
	records []feedback.Record
}

// newRouter returns a routing service over engines at URLs that serve the model m, which
// is known as alias too.
func newRouter(urls []string, observe func(*feedback.Record)) (*router.Pool, http.Handler, error) {
	r := router.New(router.Options{Seed: 1, Epoch: time.Now()})
	spec := router.PoolSpec{
		Name: "chat", Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(),
		Models: []router.ModelSpec{{Name: "alias", Served: "m"}},
	}
	for _, u := range urls {
		spec.Backends = append(spec.Backends, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	pool, err := r.AddPool(spec)
	if err != nil {
		return nil, nil, err
	}
	service, err := rpc.New(rpc.Options{
		Router: r, Bodies: intake.NewBudget(1 << 30), Calls: slices.Concat(openai.Calls(), anthropic.Calls()), Observe: observe,
		InjectUsage: true,
	})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	service.Register(mux)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "models") })
	return pool, mux, nil
}

func newFleet(t *testing.T, engines map[string]http.HandlerFunc, options ...client.Option) *fleet {
	t.Helper()
	f := &fleet{t: t}
	network := memhttp.NewNetwork()
	var urls []string
	for addr, h := range engines {
		urls = append(urls, "http://"+addr)
		if h == nil {
			continue // nobody listens
		}
		server, err := network.Serve(addr, afterBody(h))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
	}
	slices.Sort(urls)
	pool, handler, err := newRouter(urls, func(r *feedback.Record) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.records = append(f.records, *r)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.pool = pool
	server, err := network.Serve("router:8080", handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	carrier := network.Client()
	f.client = client.New("http://router:8080", append([]client.Option{client.WithHTTPClient(carrier)}, options...)...)
	f.http = &http.Client{Transport: f.client.Transport(carrier.Transport)}
	return f
}

// afterBody lets an engine answer when it has read the request: a network in memory has no
// buffers for what nobody reads.
func afterBody(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h(w, r)
	}
}

// recorded waits for reports that are under way and returns the records.
func (f *fleet) recorded() []feedback.Record {
	f.client.Close()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.records)
}

func (f *fleet) inFlight() int {
	sum := 0
	for _, b := range f.pool.Backends() {
		sum += b.InFlight()
	}
	return sum
}

func (f *fleet) chat(ctx context.Context, more string) (*http.Response, error) {
	f.t.Helper()
	body := fmt.Sprintf(`{"model":"alias","messages":[{"role":"user","content":%q}]%s}`, strings.Repeat("the quick brown fox ", 200), more)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://anything/v1/chat/completions?a=b", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return f.http.Do(req)
}

// whole answers with usage.
func whole(w http.ResponseWriter, r *http.Request) {
	var body struct{ Model string }
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Model != "m" || r.URL.RawQuery != "a=b" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":640}}}`)
}

// stream answers a token a second and then usage.
func stream(tokens int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range tokens {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
			io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":640}}}\n\ndata: [DONE]\n\n")
	}
}

// What an engine says reaches the router without the caller doing anything, even one that
// does not look for the end of the answer.
func TestTransportReports(t *testing.T) {
	for name, read := range map[string]func(io.Reader) error{
		"to the end": func(r io.Reader) error { _, err := io.ReadAll(r); return err },
		"one value":  func(r io.Reader) error { return json.NewDecoder(r).Decode(new(any)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": whole, "b2:8000": whole})
				var first string
				for range 2 {
					resp, err := f.chat(t.Context(), "")
					if err != nil {
						t.Fatal(err)
					}
					if err := read(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
						t.Errorf("%d, %v", resp.StatusCode, err)
					}
					resp.Body.Close()
					if first == "" {
						first = resp.Header.Get("X-Warmroute-Backend")
					} else if got := resp.Header.Get("X-Warmroute-Backend"); got != first || resp.Header.Get("X-Warmroute-Reason") != "longest_match" {
						t.Errorf("went to %s (%s), after %s", got, resp.Header.Get("X-Warmroute-Reason"), first)
					}
				}
				r := f.recorded()
				if len(r) != 2 || r[0].Result != feedback.Success || r[0].Usage.Prompt != 1000 || r[0].Usage.Cached != 640 || r[0].Usage.Completion != 2 || f.inFlight() != 0 {
					t.Errorf("records %+v, %d in flight", r, f.inFlight())
				}
			})
		})
	}
}

// A stream renews its lease for as long as it lasts, and its first token is told at once.
func TestTransportStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": stream(60)}, client.WithLease(10*time.Second))
		resp, err := f.chat(t.Context(), `,"stream":true`)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		resp.Body.Close()
		r := f.recorded()
		if len(r) != 1 || r[0].Result != feedback.Success || r[0].TTFT != time.Second || r[0].Duration != time.Minute || r[0].Usage.Cached != 640 {
			t.Errorf("records: %+v", r)
		}
	})
}

// asksUsage is an engine that reports usage on streams only where it is asked to.
func asksUsage(asked *[]bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Options struct {
				IncludeUsage bool `json:"include_usage"`
			} `json:"stream_options"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		*asked = append(*asked, body.Options.IncludeUsage)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, piece := range []string{"data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]", "}\r", "\n\r\n: a comment\n\n"} {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
		if body.Options.IncludeUsage {
			io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":640}}}\n\n")
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}
}

// The engine is asked for usage where the caller does not say, and the caller gets what it
// would have got; who asks or declines gets what it asked for.
func TestTransportAsksForUsage(t *testing.T) {
	const plain = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r\n: a comment\n\ndata: [DONE]\n\n"
	for _, tc := range []struct {
		name, more          string
		header              string
		asked, seen, report bool
	}{
		{name: "it does not say", asked: true, report: true},
		{name: "it asks", more: `,"stream_options":{"include_usage":true}`, asked: true, seen: true, report: true},
		{name: "it declines", more: `,"stream_options":{"include_usage":false}`},
		{name: "it would get something compressed", header: "gzip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []bool
				f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": asksUsage(&asked)})
				if tc.header != "" {
					carrier := f.http.Transport
					f.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
						r.Header.Set("Accept-Encoding", tc.header)
						return carrier.RoundTrip(r)
					})
				}
				resp, err := f.chat(t.Context(), `,"stream":true`+tc.more)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(struct{ io.Reader }{resp.Body})
				resp.Body.Close()
				if err != nil || strings.Contains(string(text), "usage") != tc.seen || !tc.seen && string(text) != plain || !slices.Equal(asked, []bool{tc.asked}) {
					t.Errorf("asked %v, got %v\n%s", asked, err, text)
				}
				r := f.recorded()
				if len(r) != 1 || r[0].Result != feedback.Success || r[0].Usage.HasCached != tc.report {
					t.Errorf("records: %+v", r)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Small reads see the same bytes, and whoever leaves in the middle cancels.
func TestTransportFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []bool
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": asksUsage(&asked)})
		read := func(most int) (text []byte) {
			resp, err := f.chat(t.Context(), `,"stream":true`)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			one := make([]byte, 3)
			for len(text) < most {
				n, err := resp.Body.Read(one)
				text = append(text, one[:n]...)
				if err != nil {
					break
				}
			}
			return text
		}
		if text := read(1 << 20); !bytes.HasSuffix(text, []byte("comment\n\ndata: [DONE]\n\n")) || bytes.Contains(text, []byte("usage")) {
			t.Errorf("read %s", text)
		}
		read(10)
		if r := f.recorded(); len(r) != 2 || r[0].Result != feedback.Success || r[1].Result != feedback.ClientClosed || f.inFlight() != 0 {
			t.Errorf("records: %+v", r)
		}
	})
}

// An engine that does not know how to report usage on streams gets the request again
// without the wish, and is not asked any more; another refusal reaches the caller whole.
func TestTransportRefusedUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		picky := func(w http.ResponseWriter, r *http.Request) {
			calls++
			body, _ := io.ReadAll(r.Body)
			switch {
			case bytes.Contains(body, []byte("too long")):
				http.Error(w, "the maximum context length is 8192"+strings.Repeat(".", 100_000), http.StatusBadRequest)
			case bytes.Contains(body, []byte("stream_options")):
				http.Error(w, "extra inputs are not permitted", http.StatusUnprocessableEntity)
			default:
				stream(1)(w, r)
			}
		}
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": picky})
		for i, tc := range []struct {
			more          string
			status, calls int
		}{
			{`,"stream":true,"user":"too long"`, 400, 1},
			{`,"stream":true`, 200, 3},
			{`,"stream":true`, 200, 4},
		} {
			resp, err := f.chat(t.Context(), tc.more)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tc.status || calls != tc.calls || err != nil || tc.status == 400 && len(text) < 100_000 {
				t.Errorf("request %d: %d after %d calls, %d bytes, %v", i, resp.StatusCode, calls, len(text), err)
			}
		}
		if r := f.recorded(); len(r) != 3 || r[0].Result != feedback.Rejected || r[1].Result != feedback.Success || f.inFlight() != 0 {
			t.Errorf("records: %+v", r)
		}
	})
}

// A conversation that an engine stores comes back to it, whoever else is there.
func TestTransportFollowsConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := 0
		stores := func(w http.ResponseWriter, _ *http.Request) {
			answers++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"resp_%d","object":"response","output":[],"usage":{"input_tokens":9,"output_tokens":1}}`, answers)
		}
		engines := make(map[string]http.HandlerFunc)
		for i := range 8 {
			engines[fmt.Sprintf("b%d:8000", i)] = stores
		}
		f := newFleet(t, engines)
		say := func(more string) string {
			resp, err := f.http.Post("http://anything/v1/responses", "application/json", strings.NewReader(`{"model":"alias","input":"hello"`+more+`}`))
			if err != nil {
				t.Fatal(err)
			}
			io.ReadAll(resp.Body)
			resp.Body.Close()
			f.client.Close() // the report is there
			return resp.Header.Get("X-Warmroute-Backend") + " " + resp.Header.Get("X-Warmroute-Reason")
		}
		for i := range 8 {
			first, _, _ := strings.Cut(say(""), " ")
			if then, want := say(fmt.Sprintf(`,"previous_response_id":"resp_%d"`, 2*i+1)), first+" pinned"; then != want {
				t.Errorf("conversation %d goes on at %s, want %s", i, then, want)
			}
		}
	})
}

// A caller that does not wait cancels; the prompt that was prefilled stays known.
func TestTransportCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": stream(60)})
		resp, err := f.chat(t.Context(), `,"stream":true`)
		if err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(resp.Body).ReadString('\n')
		resp.Body.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if resp, err = f.chat(ctx, `,"stream":true`); err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		r := f.recorded()
		if len(r) != 2 || r[0].Result != feedback.ClientClosed || r[1].Result != feedback.ClientClosed || r[0].TTFT == 0 || f.inFlight() != 0 {
			t.Errorf("records %+v, %d in flight", r, f.inFlight())
		}
	})
}

// Backends that are not there, or that ask for a pause, are passed over.
func TestTransportTriesOthers(t *testing.T) {
	full := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "full", http.StatusServiceUnavailable)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": nil, "b2:8000": full, "b3:8000": whole})
		for range 4 {
			resp, err := f.chat(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Warmroute-Backend") != "b3:8000" {
				t.Errorf("%d from %s", resp.StatusCode, resp.Header.Get("X-Warmroute-Backend"))
			}
		}
		results := make(map[string]feedback.Result)
		for _, r := range f.recorded() {
			results[r.Backend] = r.Result
		}
		if results["b3:8000"] != feedback.Success || f.inFlight() != 0 {
			t.Errorf("results %v, %d in flight", results, f.inFlight())
		}
		for b, want := range map[string]feedback.Result{"b1:8000": feedback.Unavailable, "b2:8000": feedback.Saturated} {
			if got, tried := results[b]; tried && got != want {
				t.Errorf("%s: %v, want %v", b, got, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": full})
		resp, err := f.chat(t.Context(), "")
		if err == nil {
			resp.Body.Close()
		}
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("with nobody left: %v", err)
		}
	})
}

// Answers that end badly are told as what they are.
func TestTransportEndings(t *testing.T) {
	for name, tc := range map[string]struct {
		engine http.HandlerFunc
		want   feedback.Result
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }, feedback.Rejected},
		"failed":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }, feedback.EngineError},
		"an error under 200": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"error":{"message":"no","code":500}}`)
		}, feedback.EngineError},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
		}, feedback.UpstreamAborted},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "{")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, feedback.UpstreamAborted},
		"dropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, feedback.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": tc.engine})
				if resp, err := f.chat(t.Context(), ""); err == nil {
					io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if r := f.recorded(); len(r) != 1 || r[0].Result != tc.want || f.inFlight() != 0 {
					t.Errorf("records %+v, %d in flight, want %v", r, f.inFlight(), tc.want)
				}
			})
		})
	}
}

// What is not a POST goes to the router itself.
func TestTransportPassesTheRestOn(t *testing.T) {
	f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": whole})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://anything/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); string(text) != "models" {
		t.Errorf("got %s", text)
	}
}

// Only the first outcome of a decision counts, and one that comes too late says so.
func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, map[string]http.HandlerFunc{"b1:8000": whole}, client.WithLease(2*time.Second))
		ask := client.Request{Path: "/v1/completions", Body: []byte(`{"model":"alias","prompt":"hello"}`), ID: "mine"}
		d, err := f.client.Route(t.Context(), ask)
		if err != nil || !d.RewriteModel || d.Model != "m" || d.Target.URL != "http://b1:8000" || d.Reason != "only_backend" {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := d.Done(client.Outcome{Ending: client.Answered, Status: 200}); err != nil {
			t.Error(err)
		}
		if err := d.Done(client.Outcome{Ending: client.Unreachable}); err != nil {
			t.Error(err)
		}
		late, err := f.client.Route(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := late.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		if err := late.Done(client.Outcome{Ending: client.Canceled}); !errors.Is(err, client.ErrNotTaken) {
			t.Errorf("after the lease: %v", err)
		}
		if r := f.recorded(); len(r) != 2 || r[0].Result != feedback.Success || r[1].Result != feedback.Expired || r[0].RequestID != "mine" {
			t.Errorf("records: %+v", r)
		}
		if _, err := f.client.Route(t.Context(), client.Request{Path: "/x"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a path that is not routed: %v", err)
		}
	})
}

// A program that uses net/http takes five lines to ask before it sends.
func ExampleClient_Transport() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"message":{"content":"Hello."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	}))
	defer engine.Close()
	var reported feedback.Usage
	_, handler, err := newRouter([]string{engine.URL}, func(r *feedback.Record) { reported = r.Usage })
	if err != nil {
		fmt.Println(err)
		return
	}
	warmroute := httptest.NewServer(handler)
	defer warmroute.Close()

	router := client.New(warmroute.URL)
	app := &http.Client{Transport: router.Transport(nil)}

	resp, err := app.Post("http://any.host/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"alias","messages":[{"role":"user","content":"Say hello."}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	io.ReadAll(resp.Body)
	resp.Body.Close()
	router.Close() // waits for the report
	http.DefaultClient.CloseIdleConnections()
	fmt.Println(resp.Status, resp.Header.Get("X-Warmroute-Reason"))
	fmt.Println("the router knows of", reported.Prompt, "prompt tokens")
	// Output:
	// 200 OK only_backend
	// the router knows of 9 prompt tokens
}

// A program that sends by other means asks, sends and reports.
func ExampleClient_Route() {
	_, handler, err := newRouter([]string{"http://gpu-1:8000"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	warmroute := httptest.NewServer(handler)
	defer warmroute.Close()

	router := client.New(warmroute.URL)
	defer router.Close()
	d, err := router.Route(context.Background(), client.Request{
		Path: "/v1/completions",
		Body: []byte(`{"model":"alias","prompt":"Once upon a time"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("send it to", d.Target.URL, "for the model", d.Model)
	// … and when the answer is in:
	err = d.Done(client.Outcome{Ending: client.Answered, Status: 200, Usage: feedback.Usage{Prompt: 5, HasPrompt: true}})
	fmt.Println("reported:", err == nil)
	// Output:
	// send it to http://gpu-1:8000 for the model m
	// reported: true
}

// WithKey shows a key with every call, and what the router says of it can be told apart.
func TestWithKey(t *testing.T) {
	shown := make(chan string, 8)
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		rpc.Refuse(w, r, &proxy.Error{Status: http.StatusUnauthorized, Message: "not known"})
	}))
	t.Cleanup(router.Close)
	for key, want := range map[string]string{"k": "Bearer k", "": ""} {
		c := client.New(router.URL, client.WithKey(key), client.WithHTTPClient(router.Client()))
		_, err := c.Route(t.Context(), client.Request{Path: "/v1/chat/completions", Body: []byte(`{}`)})
		if got := <-shown; got != want || connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("key %q: the router was shown %q, and the error is %v", key, got, err)
		}
		c.Close()
	}
}
