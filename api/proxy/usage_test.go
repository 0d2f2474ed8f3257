package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestUF01DetailsThatAreNotThere(t *testing.T) {
	bodies := []string{
		`{"choices":[{}],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":null}}`,
		`{"choices":[{}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
		`{"choices":[{}]}`,
	}
	next := make(chan string, 1)
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, <-next)
	})})
	for i, body := range bodies {
		next <- body
		if got := f.send("POST", chatPath, chat(story("uf01", 4000))); got.body != body {
			t.Errorf("got %s", got.body)
		}
		r := f.last(i + 1)
		if r.Usage.HasCached || r.Result != feedback.Success {
			t.Errorf("record: %v, usage %+v", r.Result, r.Usage)
		}
		if i > 0 && r.MatchedBlocks != r.PromptBlocks {
			t.Errorf("%d of %d blocks matched", r.MatchedBlocks, r.PromptBlocks)
		}
	}
	f.settled(3)
}

// asking is an engine that reports usage on a stream only when it is asked to.
func asking(refuses string) (http.HandlerFunc, *atomic.Int32) {
	asked := new(atomic.Int32)
	return func(w http.ResponseWriter, r *http.Request) {
		body := readAll(r)
		wants := strings.Contains(body, `"include_usage":true`)
		if wants {
			asked.Add(1)
		}
		switch {
		case wants && refuses != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, refuses)
		case wants:
			startEvents(w)
			events(w, delta, finish, usageChunk, done)
		default:
			startEvents(w)
			events(w, delta, finish, done)
		}
	}, asked
}

func TestUF03StreamThatDoesNotAsk(t *testing.T) {
	h, asked := asking("")
	f := start(t, []string{engine(t, h)})
	for i, test := range []struct {
		more  string
		want  string
		asked int32
	}{
		{"", delta + finish + done, 1},
		{`,"stream_options":{}`, delta + finish + done, 2},
		{`,"stream_options":{"include_usage":true}`, delta + finish + usageChunk + done, 3},
		{`,"stream_options":{"include_usage":false}`, delta + finish + done, 3},
	} {
		got := f.send("POST", chatPath, chat("hello", streaming, test.more))
		if got.StatusCode != http.StatusOK || got.body != test.want {
			t.Errorf("%s: got %d %q", test.more, got.StatusCode, got.body)
		}
		if n := asked.Load(); n != test.asked {
			t.Errorf("%s: the engine was asked for usage %d times, want %d", test.more, n, test.asked)
		}
		if r := f.last(i + 1); r.Usage.HasCached != (i < 3) || r.Result != feedback.Success {
			t.Errorf("%s: record %v, usage %+v", test.more, r.Result, r.Usage)
		}
	}
	f.settled(4)

	off := start(t, []string{engine(t, h)}, func(s *setup) { s.options.InjectUsage = false })
	off.send("POST", chatPath, chat("hello", streaming))
	if n := asked.Load(); n != 3 {
		t.Error("the engine was asked although inject_usage is off")
	}
}

func TestUF05EngineThatRefusesTheOption(t *testing.T) {
	for _, refusal := range []string{
		`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]"}`,
		`extra inputs not permitted`,
		`bad request`,
	} {
		h, asked := asking(refusal)
		f := start(t, []string{engine(t, h)})
		for i := range 3 {
			got := f.send("POST", chatPath, chat("hello", streaming))
			if got.StatusCode != http.StatusOK || got.body != delta+finish+done {
				t.Errorf("got %d %q", got.StatusCode, got.body)
			}
			if r := f.last(i + 1); r.Attempts != 1 || r.Result != feedback.Success || r.Usage.HasCached {
				t.Errorf("record: %v after %d", r.Result, r.Attempts)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%q: the engine was asked %d times, want once", refusal, n)
		}
		// A client that asks for itself gets the engine's own answer.
		if got := f.send("POST", chatPath, chat("hello", streaming, `,"stream_options":{"include_usage":true}`)); got.StatusCode != http.StatusBadRequest || got.body != refusal {
			t.Errorf("got %d %q", got.StatusCode, got.body)
		}
		f.settled(4)
	}
}

// What is wrong with the request itself stays wrong without the option, and says
// nothing about it.
func TestUF05OtherRefusals(t *testing.T) {
	const refusal = `{"error":{"message":"unknown role"}}`
	var calls, asked atomic.Int32
	f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		body := readAll(r)
		calls.Add(1)
		if strings.Contains(body, "include_usage") {
			asked.Add(1)
		}
		if strings.Contains(body, "bad") {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, refusal+strings.Repeat(" ", 100<<10))
			return
		}
		startEvents(w)
		events(w, delta, finish, usageChunk, done)
	})})
	send := func(text string, status int, wantCalls, wantAsked int32) {
		t.Helper()
		if got := f.send("POST", chatPath, chat(text, streaming)); got.StatusCode != status || status == 400 && len(got.body) != len(refusal)+100<<10 {
			t.Errorf("%s: got %d, %d bytes", text, got.StatusCode, len(got.body))
		}
		if calls.Load() != wantCalls || asked.Load() != wantAsked {
			t.Errorf("%s: %d calls, %d with the option; want %d, %d", text, calls.Load(), asked.Load(), wantCalls, wantAsked)
		}
	}
	send("bad", 400, 2, 1)  // not known yet whether the engine takes the option
	send("good", 200, 3, 2) // it does
	send("bad", 400, 4, 3)  // so the refusal is the client's
	f.settled(3)
}

func TestUF14ErrorsUnder200(t *testing.T) {
	for name, test := range map[string]struct {
		contentType, body string
		status            int
		result            feedback.Result
	}{
		"error object":    {"application/json", `{"object":"error","code":404,"message":"x"}`, 200, feedback.EngineError},
		"error as first":  {"text/event-stream", `data: {"error":{"message":"x","code":500}}` + "\n\n" + done, 200, feedback.EngineError},
		"error in stream": {"text/event-stream", delta + `data: {"error":{"message":"x","code":500}}` + "\n\n" + done, 200, feedback.EngineError},
		"400":             {"application/json", `{"error":{"message":"x"}}`, 400, feedback.Rejected},
		"404":             {"application/json", `{"error":{"message":"x"}}`, 404, feedback.NotFound},
		"500":             {"application/json", `{"error":{"message":"x"}}`, 500, feedback.EngineError},
	} {
		f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.contentType)
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
		})})
		more := ""
		if test.contentType == "text/event-stream" {
			more = streaming
		}
		got := f.send("POST", chatPath, chat(story("uf14", 4000), more))
		if got.StatusCode != test.status || got.body != test.body {
			t.Errorf("%s: got %d %s", name, got.StatusCode, got.body)
		}
		if r := f.last(1); r.Result != test.result || r.Err == "" {
			t.Errorf("%s: recorded as %v (%s)", name, r.Result, r.Err)
		}
		if s := f.pool.Status(time.Now())[0]; s.Index.Blocks != 0 {
			t.Errorf("%s: %d blocks learned", name, s.Index.Blocks)
		}
		f.settled(1)
	}
}

func TestUF18ClientsThatLeaveEarly(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		body := readAll(r)
		startEvents(w)
		events(w, delta, delta, delta)
		if strings.Contains(body, `"max_tokens":1`) {
			<-r.Context().Done()
			return
		}
		events(w, usageChunk, done)
	}
	f := start(t, []string{engine(t, h), engine(t, h), engine(t, h)})
	text := story("uf18", 4000)
	for i := range 20 {
		ctx, leave := context.WithCancel(t.Context())
		resp, err := f.client.Do(f.request(ctx, "POST", chatPath, strings.NewReader(chat(text, streaming, `,"max_tokens":1`))))
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, resp.Body, int64(3*len(delta)))
		leave()
		resp.Body.Close()
		if r := f.last(i + 1); r.Result != feedback.ClientClosed || r.Usage.HasCached || r.Status != 499 {
			t.Errorf("record: %d %v, usage %+v", r.Status, r.Result, r.Usage)
		}
	}
	first := f.last(1)
	wantOK(t, f.send("POST", chatPath, chat(text, streaming)))
	if r := f.last(21); r.Backend != first.Backend || r.MatchedBlocks != r.PromptBlocks || r.Usage.Cached != 64 {
		t.Errorf("first %s, at last %s with %d of %d blocks", first.Backend, r.Backend, r.MatchedBlocks, r.PromptBlocks)
	}
	f.settled(21)
}

// HA-01, HA-05, HA-06, HA-02: what steers a request is the prompt as the engine
// renders it, from its start.
func TestHA01OnlyTheBeginningCounts(t *testing.T) {
	urls, _ := echoes(t, 2)
	f := start(t, urls)
	x, y := story("x", 4096), story("y", 4096)
	f.prefer(urls[0], chat(x))
	f.prefer(urls[1], chat(y))
	for i, test := range []struct{ text, url string }{{y + x, urls[1]}, {x + y, urls[0]}} {
		wantOK(t, f.send("POST", chatPath, chat(test.text)))
		r := f.last(3 + i)
		if want := f.byURL(test.url).ID; r.Backend != want || r.MatchedBlocks < 15 || r.MatchedBlocks > 16 {
			t.Errorf("went to %s with %d blocks, want %s", r.Backend, r.MatchedBlocks, want)
		}
	}
	f.settled(4)
}

func TestHA05ToolsComeFirst(t *testing.T) {
	urls, _ := echoes(t, 2)
	f := start(t, urls)
	text := story("ha05", 4096)
	tools := func(name string) string {
		return `,"tools":[{"type":"function","function":{"name":"` + name + `","parameters":{}}}]`
	}
	wantOK(t, f.send("POST", chatPath, chat(text, tools("a"))))
	for i, test := range []struct {
		more  string
		match bool
	}{
		{tools("b"), false},
		{"", false},
		{tools("a"), true},
		{`,"chat_template_kwargs":{"enable_thinking":false}`, false},
	} {
		wantOK(t, f.send("POST", chatPath, chat(text, test.more)))
		if r := f.last(2 + i); (r.MatchedBlocks > 0) != test.match {
			t.Errorf("%s: %d blocks matched", test.more, r.MatchedBlocks)
		}
	}
	f.settled(5)
}

func TestHA06CosmeticsDoNotCount(t *testing.T) {
	urls, _ := echoes(t, 3)
	f := start(t, urls)
	text := story("ha06", 4096)
	first := `{"model":"m","messages":[{"role":"user","content":"A` + text + `"}]}`
	n := 0
	for _, body := range []string{
		first,
		`{ "messages" : [ {"content":"A` + text + `", "role":"user"} ] , "model":"m" }`,
		`{"model":"m","messages":[{"role":"user","content":"\u0041` + text + `"}]}`,
		`{"model":"m","temperature":0.1,"user":"u","metadata":{"a":"b"},"messages":[{"role":"user","content":"A` + text + `"}]}`,
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"A` + text + `"}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"A` + text + `"}]}]}`,
	} {
		wantOK(t, f.send("POST", chatPath, body))
		n++
		if r := f.last(n); n > 1 && (r.MatchedBlocks != r.PromptBlocks || r.Backend != f.last(1).Backend) {
			t.Errorf("%s…: %d of %d blocks matched", body[:60], r.MatchedBlocks, r.PromptBlocks)
		}
	}
	f.settled(n)
}

// Tenants, salts and cache keys part equal prompts, where they are meant to.
func TestScopes(t *testing.T) {
	urls, _ := echoes(t, 3)
	const tenant = "X-Amzn-SageMaker-Prefix-Aware-Id"
	text := story("scopes", 4096)
	for _, use := range []router.CacheKeyUse{router.CacheKeyHint, router.CacheKeySeparate, router.CacheKeyIgnore} {
		f := start(t, urls, func(s *setup) { s.config.PromptCacheKey = use })
		wantOK(t, f.send("POST", chatPath, chat(text)))
		for i, test := range []struct {
			more    string
			headers []string
			match   bool
		}{
			{"", nil, true},
			{"", []string{tenant, "a"}, false},
			{"", []string{tenant, "a"}, true},
			{"", []string{tenant, "b"}, false},
			{`,"cache_salt":"s"`, nil, false},
			{`,"prompt_cache_key":"k"`, nil, use != router.CacheKeySeparate},
			{`,"prompt_cache_key":"k"`, nil, true},
		} {
			wantOK(t, f.send("POST", chatPath, chat(text, test.more), test.headers...))
			if r := f.last(2 + i); (r.MatchedBlocks > 0) != test.match {
				t.Errorf("%s: %q %v: %d blocks matched", use, test.more, test.headers, r.MatchedBlocks)
			}
		}
		for _, bad := range []string{strings.Repeat("x", 65), "ü", " "} {
			got := f.send("POST", chatPath, chat(text), tenant, bad)
			if trimmed := strings.TrimSpace(bad) == ""; got.StatusCode != http.StatusBadRequest && !trimmed {
				t.Errorf("tenant id %q: got %d", bad, got.StatusCode)
			}
		}
	}
}

// OB-02, and OB-07: the trace context goes on as it came: the router has no span of its own.
func TestOB02RequestIDs(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	a := f.send("POST", chatPath, chat("x"), "X-Request-Id", "given-1", "Traceparent", parent)
	r, h := f.last(1), got.last().header
	if a.Header.Get("X-Request-Id") != "given-1" || h.Get("X-Request-Id") != "given-1" || r.RequestID != "given-1" {
		t.Errorf("answer %q, engine %q, record %q", a.Header.Get("X-Request-Id"), h.Get("X-Request-Id"), r.RequestID)
	}
	if h.Get("Traceparent") != parent || r.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("traceparent %q, trace id %q", h.Get("Traceparent"), r.TraceID)
	}
	seen := map[string]bool{}
	for i, id := range []string{"", strings.Repeat("x", 300), "ü"} {
		a := f.send("POST", chatPath, chat("x"), "X-Request-Id", id)
		made := a.Header.Get("X-Request-Id")
		if len(made) != 32 || seen[made] || got.last().header.Get("X-Request-Id") != made || f.last(2+i).RequestID != made {
			t.Errorf("made %q, the engine got %q", made, got.last().header.Get("X-Request-Id"))
		}
		seen[made] = true
	}
	if a := f.send("GET", "/nothing", "", "X-Request-Id", "given-2"); a.Header.Get("X-Request-Id") != "given-2" {
		t.Error("an error does not carry the id")
	}
}

func TestOB08SevenResults(t *testing.T) {
	arrived := make(chan struct{}, 1)
	f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		switch body := readAll(r); {
		case strings.Contains(body, "leave"):
			arrived <- struct{}{}
			<-r.Context().Done()
		case strings.Contains(body, "break"):
			reset(w)
		case strings.Contains(body, "hang"):
			<-r.Context().Done()
		case strings.Contains(body, "abort"):
			startEvents(w)
			events(w, delta)
			reset(w)
		default:
			writeWhole(w)
		}
	})}, func(s *setup) { s.transport.FirstByte = 500 * time.Millisecond })
	f.send("POST", chatPath, chat("fine"))
	f.send("POST", chatPath, `{"model":"nope"}`)
	f.send("POST", chatPath, `{`)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-arrived
		leave()
	}()
	if resp, err := f.client.Do(f.request(ctx, "POST", chatPath, strings.NewReader(chat("leave")))); err == nil {
		resp.Body.Close()
	}
	f.await(4)
	f.send("POST", chatPath, chat("break"))
	f.send("POST", chatPath, chat("hang"))
	f.send("POST", chatPath, chat("abort", streaming))
	want := []struct {
		result feedback.Result
		status int
	}{
		{feedback.Success, 200},
		{feedback.NotFound, 404},
		{feedback.Rejected, 400},
		{feedback.ClientClosed, 499},
		{feedback.Unavailable, 502},
		{feedback.Timeout, 504},
		{feedback.UpstreamAborted, 200},
	}
	for i, r := range f.await(len(want)) {
		if r.Result != want[i].result || r.Status != want[i].status {
			t.Errorf("record %d: %v, status %d; want %v, %d", i, r.Result, r.Status, want[i].result, want[i].status)
		}
	}
	f.settled(len(want))
}

func TestStoredResponses(t *testing.T) {
	var urls []string
	got := new(seen)
	for _, id := range []string{"a", "b", "c"} {
		urls = append(urls, engine(t, func(w http.ResponseWriter, r *http.Request) {
			body := readAll(r)
			got.add(request{host: id, method: r.Method, uri: r.URL.RequestURI(), body: body})
			if strings.Contains(body, `"stream":true`) {
				startEvents(w)
				events(w, `event: response.created`+"\n"+`data: {"type":"response.created","response":{"id":"resp_s`+id+`","object":"response","status":"in_progress"}}`+"\n\n",
					`event: response.completed`+"\n"+`data: {"type":"response.completed","response":{"id":"resp_s`+id+`","object":"response","status":"completed"}}`+"\n\n")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"resp_`+id+`","object":"response","status":"completed","output":[]}`)
		}))
	}
	f := start(t, urls)
	n := 0
	for _, more := range []string{"", streaming} {
		for i := range 6 {
			f.send("POST", "/v1/responses", `{"model":"m","input":"`+story(string(rune('a'+i))+more[:min(1, len(more))], 2000)+`"`+more+`}`)
			n++
			f.await(n)
			at := got.last().host
			id := "resp_" + at
			if more != "" {
				id = "resp_s" + at
			}
			for _, call := range []struct{ method, path, body string }{
				{"GET", "/v1/responses/" + id + "?stream=false", ""},
				{"POST", "/v1/responses/" + id + "/cancel", ""},
				{"DELETE", "/v1/responses/" + id, ""},
				{"POST", "/v1/responses", `{"model":"m","input":"go on","previous_response_id":"` + id + `"}`},
			} {
				a := f.send(call.method, call.path, call.body)
				n++
				wantOK(t, a)
				if r := got.last(); r.host != at || r.uri != call.path || r.method != call.method {
					t.Errorf("%s %s went to %s as %s %s, want %s", call.method, call.path, r.host, r.method, r.uri, at)
				}
			}
		}
	}
	if a := f.send("GET", "/v1/responses/unknown", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("got %d", a.StatusCode)
	}
	n++
	// What a backend stored is gone with it.
	holder := f.byURL(urls[2]).ID
	var rest []backends.Spec
	for _, u := range urls[:2] {
		rest = append(rest, backends.Spec{URL: u, Rank: backends.NoRank})
	}
	f.pool.SetBackends(rest)
	if a := f.send("GET", "/v1/responses/resp_c", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("%s left: got %d %s", holder, a.StatusCode, a.body)
	}
	wantOK(t, f.send("POST", "/v1/responses", `{"model":"m","input":"go on","previous_response_id":"resp_c"}`))
	n += 2
	f.settled(n)

	// With one backend there is nobody else who could have it.
	alone := start(t, urls[:1])
	if a := alone.send("GET", "/v1/responses/unknown", ""); a.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	alone.settled(1)
}

func TestDI13Aliases(t *testing.T) {
	urls, got := echoes(t, 3)
	f := start(t, urls, func(s *setup) {
		s.models = []router.ModelSpec{{Name: "qwen"}, {Name: "gpt-4", Served: "qwen"}}
	})
	text := story("alias", 4096)
	body := func(model string) string {
		return `{"messages":[{"role":"user","content":"` + text + `"}],"model": "` + model + `"}`
	}
	wantOK(t, f.send("POST", chatPath, body("gpt-4")))
	if r := got.last(); r.body != body("qwen") || r.length != int64(len(body("qwen"))) {
		t.Errorf("the engine got %d bytes, length %d", len(r.body), r.length)
	}
	wantOK(t, f.send("POST", chatPath, body("qwen")))
	if a, b := f.last(1), f.last(2); b.MatchedBlocks != a.PromptBlocks || a.Backend != b.Backend || a.Model != "qwen" {
		t.Errorf("the alias has other blocks: %d of %d matched", b.MatchedBlocks, a.PromptBlocks)
	}
	list := f.send("GET", "/v1/models", "")
	if !strings.Contains(list.body, `"id":"gpt-4"`) || !strings.Contains(list.body, `"id":"qwen"`) {
		t.Errorf("listed: %s", list.body)
	}
	// Both edits at once.
	f.send("POST", chatPath, strings.Replace(body("gpt-4"), "{", `{"stream":true,`, 1))
	if r := got.last(); !strings.Contains(r.body, `"model": "qwen"`) || !strings.Contains(r.body, `"include_usage":true`) || r.length != int64(len(r.body)) {
		t.Errorf("the engine got %s", printed(r.body))
	}
	f.settled(4)
}

func TestDI11ModelsAreMerged(t *testing.T) {
	urls, _ := echoes(t, 2)
	f := start(t, urls, func(s *setup) { s.models = nil })
	empty := f.send("GET", "/v1/models", "")
	if jsonError(t, empty); empty.StatusCode != http.StatusServiceUnavailable || empty.Header.Get("Retry-After") == "" {
		t.Errorf("nothing learned: got %d %s", empty.StatusCode, empty.body)
	}
	if a := f.send("POST", chatPath, chat("x")); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("nothing learned: got %d %s", a.StatusCode, a.body)
	}
	const (
		a1 = `{"id":"A","object":"model","created":1,"owned_by":"vllm","max_model_len": 4096,"x":{"deep":[1, 2]}}`
		l  = `{"id":"L","parent":"A","created":1}`
		a2 = `{"id":"A","created":2}`
		b2 = `{"id":"B","created":2}`
	)
	all := f.pool.Backends()
	all[0].SetModels([]backends.Model{{ID: "A", JSON: []byte(a1)}, {ID: "L", JSON: []byte(l)}})
	all[1].SetModels([]backends.Model{{ID: "A", JSON: []byte(a2)}, {ID: "B", JSON: []byte(b2)}})
	want := `{"object":"list","data":[` + a1 + `,` + l + `,` + b2 + `]}`
	for range 3 {
		if got := f.send("GET", "/v1/models", ""); got.body != want || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s, want %s", got.body, want)
		}
	}
	for _, model := range []string{"L", "B"} {
		holder := map[string]string{"L": all[0].ID, "B": all[1].ID}[model]
		for range 4 {
			a := f.send("POST", chatPath, `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`)
			if a.Header.Get("X-Warmroute-Backend") != holder {
				t.Errorf("%s went to %s", model, a.Header.Get("X-Warmroute-Backend"))
			}
		}
	}
}
