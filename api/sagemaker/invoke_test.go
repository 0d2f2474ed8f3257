package sagemaker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

func TestInvoke(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "c000b4f9")
		w.Header().Set("X-Amzn-Invoked-Production-Variant", "of another") // not for the engine to say
		w.Header().Set("X-Amzn-RequestId", "of another")
		writeWhole(w)
	})
	f := start(t, []string{e.url})
	body := "{ \"messages\" : [{\"role\":\"user\",\"content\":\"hello\"}], \"temperature\":0.5}"
	got := f.send(invoke+"?x=1", body,
		"Accept", "application/jsonlines", "X-Amzn-SageMaker-Custom-Attributes", "trace=1", "X-Amzn-SageMaker-Inference-Id", "i-1",
		"X-Amzn-SageMaker-Prefix-Aware-Id", "tenant", "X-Amzn-SageMaker-Target-Variant", "blue", "X-Amzn-SageMaker-Session-Id", "s",
		"Authorization", "AWS4-HMAC-SHA256 Credential=x", "X-Amz-Date", "20261130T000000Z", "X-Amz-Security-Token", "token",
		"Amz-Sdk-Invocation-Id", "1", "Amz-Sdk-Request", "attempt=1; max=3")
	if got.StatusCode != http.StatusOK || got.body != whole || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %q %v", got.StatusCode, got.body, got.Header)
	}
	for name, want := range map[string]string{
		"X-Amzn-Invoked-Production-Variant": "blue", "X-Amzn-SageMaker-Custom-Attributes": "c000b4f9",
		"X-Amzn-RequestId": got.Header.Get("X-Request-Id"),
	} {
		if value := got.Header.Get(name); value != want || value == "" {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	s := e.last(t)
	if s.uri != "/invocations" || s.body != body {
		t.Errorf("the engine got %s %q", s.uri, s.body)
	}
	for name, want := range map[string]string{
		"Accept": "application/jsonlines", "Content-Type": "application/json", "X-Amzn-SageMaker-Custom-Attributes": "trace=1",
		"X-Amzn-SageMaker-Inference-Id": "i-1", "X-Amzn-SageMaker-Prefix-Aware-Id": "", "X-Amzn-SageMaker-Target-Variant": "",
		"X-Amzn-SageMaker-Session-Id": "s", "Authorization": "", "X-Amz-Date": "", "X-Amz-Security-Token": "",
		"Amz-Sdk-Invocation-Id": "", "Amz-Sdk-Request": "",
	} {
		if value := s.header.Get(name); value != want {
			t.Errorf("the engine got %s: %q, want %q", name, value, want)
		}
	}
	r := f.record(1)
	if r.Route != "/endpoints/{endpoint}/invocations" || r.Dialect != "sagemaker" || r.Model != model || r.Result != feedback.Success || r.Usage.Cached != 64 {
		t.Errorf("recorded as %+v", r)
	}
	f.idle()
}

// The model may be left out, empty, an alias, or one that the pool has not.
func TestModelOfAnInvocation(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, []string{e.url})
	for _, test := range []struct{ path, model, want string }{
		{invoke, ``, `{"messages":[]}`},
		{invoke, `"model":"",`, `{"model":"","messages":[]}`},
		{invoke, `"model":null,`, `{"model":null,"messages":[]}`},
		{invoke, `"model":"alias-of-m",`, `{"model":"m","messages":[]}`},
		{compat, `"model":"",`, `{"model":"","messages":[]}`},
		{compat, `"model":"alias-of-m",`, `{"model":"m","messages":[]}`},
		{"/invocations", `"model":"alias-of-m",`, `{"model":"m","messages":[]}`},
		{"/invocations", ``, `{"messages":[]}`},
	} {
		got := f.send(test.path, "{"+test.model+`"messages":[]}`)
		if got.StatusCode != http.StatusOK || e.last(t).body != test.want {
			t.Errorf("%s with %s: %d, the engine got %s", test.path, test.model, got.StatusCode, e.last(t).body)
		}
	}
	asked := e.count()
	f.send(invoke, `{"model":"other","messages":[]}`).problem(t, http.StatusBadRequest, "ValidationError")
	f.send(invoke, `{"model":7,"messages":[]}`).problem(t, http.StatusBadRequest, "ValidationError")
	f.send(compat, `{"model":"other","messages":[]}`).problem(t, http.StatusNotFound, "ValidationError")
	if e.count() != asked {
		t.Error("the engine was asked for a model that it has not")
	}
}

// Bodies that nothing is known of go through as they are.
func TestOpaqueBodies(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		w.Write([]byte("0.5,0.25\n"))
	})
	f := start(t, []string{e.url})
	for _, body := range []string{"1,2,3\n4,5,6\n", "\x00\x01\xff", "", `{"instances":[[1]]}`, `{"messages":`, `[1]`} {
		got := f.send(invoke, body, "Content-Type", "application/x-anything")
		s := e.last(t)
		if got.StatusCode != http.StatusOK || got.body != "0.5,0.25\n" || s.body != body || s.header.Get("Content-Type") != "application/x-anything" {
			t.Errorf("%q: %d %q, the engine got %q", body, got.StatusCode, got.body, s.body)
		}
	}
}

func TestRefusedHeaders(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, []string{e.url})
	for _, header := range [][2]string{
		{"X-Amzn-SageMaker-Prefix-Aware-Id", strings.Repeat("x", 65)},
		{"X-Amzn-SageMaker-Prefix-Aware-Id", "a\tb"},
		{"X-Amzn-SageMaker-Prefix-Aware-Id", "é"},
		{"X-Amzn-SageMaker-Prefix-Aware-Id", ""},
		{"X-Amzn-SageMaker-Inference-Id", strings.Repeat("x", 65)},
		{"X-Amzn-SageMaker-Inference-Id", ""},
		{"X-Amzn-SageMaker-Custom-Attributes", strings.Repeat("x", 1025)},
		{"X-Amzn-SageMaker-Custom-Attributes", "a\tb"},
		{"Accept", strings.Repeat("x", 1025)},
		{"X-Amzn-SageMaker-Accept", strings.Repeat("x", 1025)},
		{"Content-Type", strings.Repeat("x", 1025)},
		{"X-Amzn-SageMaker-Target-Model", "model.tar.gz"},
		{"X-Amzn-SageMaker-Target-Container-Hostname", "second"},
		{"X-Amzn-SageMaker-Enable-Explanations", "`true`"},
		{"X-Amzn-SageMaker-Target-Variant", "green"},
		{"X-Amzn-SageMaker-Inference-Component", "ic"},
	} {
		for _, path := range []string{invoke, stream} {
			f.send(path, chat("hello"), header[0], header[1]).problem(t, http.StatusBadRequest, "ValidationError")
		}
	}
	p := f.send(compat, chat("hello"), "X-Amzn-SageMaker-Prefix-Aware-Id", strings.Repeat("x", 65)).problem(t, http.StatusBadRequest, "ValidationError")
	if p.Error.Type != "invalid_request_error" || p.Error.Message != p.Message {
		t.Errorf("OpenAI's clients read %+v", p.Error)
	}
	f.send("/invocations", chat("hello"), "X-Amzn-SageMaker-Prefix-Aware-Id", "").problem(t, http.StatusBadRequest, "ValidationError")
	large := chat(strings.Repeat("x", 900_000))
	f.send(invoke, large, "X-Amzn-SageMaker-Prefix-Aware-Id", "").problem(t, http.StatusBadRequest, "ValidationError")
	if e.count() != 0 {
		t.Error("the engine was asked")
	}
	longest := strings.Repeat("x", 64)
	got := f.send(invoke, chat("hello"), "X-Amzn-SageMaker-Prefix-Aware-Id", longest, "X-Amzn-SageMaker-Inference-Id", longest, "X-Amzn-SageMaker-Custom-Attributes", strings.Repeat("x", 1024))
	if got.StatusCode != http.StatusOK {
		t.Errorf("the longest values: %d %s", got.StatusCode, got.body)
	}
}

// What is not there is said in AWS's shape too.
func TestOtherPathsAndMethods(t *testing.T) {
	f := start(t, []string{newEngine(t, nil).url})
	f.send("/endpoints/nobody/invocations", chat("x")).problem(t, http.StatusBadRequest, "ValidationError")
	f.send("/endpoints/a%2Fb/invocations", chat("x")).problem(t, http.StatusBadRequest, "ValidationError")
	f.send("/endpoints/ep/inference-components/ic/openai/v1/chat/completions", chat("x")).problem(t, http.StatusBadRequest, "ValidationError")
	f.send("/endpoints/ep/async-invocations", "").problem(t, http.StatusNotImplemented, "ValidationError")
	for _, path := range []string{"/endpoints/", "/endpoints/ep", "/endpoints/ep/openai/v1/models", "/endpoints/ep/invocations/x"} {
		f.send(path, "").problem(t, http.StatusNotFound, "UnknownOperationException")
	}
	for _, path := range []string{invoke, stream, compat, "/invocations", "/endpoints/ep/async-invocations"} {
		got := f.do(f.request(t.Context(), http.MethodGet, path, nil))
		got.problem(t, http.StatusMethodNotAllowed, "UnknownOperationException")
		if allow := got.Header.Get("Allow"); allow != "OPTIONS, POST" {
			t.Errorf("%s allows %q", path, allow)
		}
		if got := f.do(f.request(t.Context(), http.MethodOptions, path, nil)); got.StatusCode != http.StatusNoContent {
			t.Errorf("OPTIONS %s: %d", path, got.StatusCode)
		}
	}
}

// Of several variants, requests go to those that their key is good for.
func TestVariantsOfAKey(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, nil, func(s *setup) {
		s.pools = []router.PoolSpec{pool("blue", e.url), pool("green", e.url), pool("red", e.url)}
		s.variants = []sagemaker.Variant{
			{Endpoint: "ep", Name: "blue", Weight: 1000}, {Endpoint: "ep", Name: "green", Weight: 1}, {Endpoint: "ep", Name: "red", Weight: 1},
		}
		s.options.Admit = func(r *http.Request) (proxy.Visitor, *proxy.Error) {
			return proxy.Visitor{Key: "k", Pools: strings.Split(r.Header.Get("For"), ",")}, nil
		}
	})
	count := map[string]int{}
	for range 40 {
		got := f.send(invoke, chat("x"), "For", "green,red")
		if got.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", got.StatusCode, got.body)
		}
		count[got.Header.Get("X-Amzn-Invoked-Production-Variant")]++
	}
	if count["blue"] != 0 || count["green"] == 0 || count["red"] == 0 {
		t.Errorf("by weight: %v", count)
	}
	f.send(invoke, chat("x"), "For", "none of them").problem(t, http.StatusForbidden, "AccessDeniedException")
	f.send(invoke, chat("x"), "For", "green", "X-Amzn-SageMaker-Target-Variant", "blue").problem(t, http.StatusForbidden, "AccessDeniedException")
	f.idle()
}

func TestVariants(t *testing.T) {
	blue, green, ic1, ic2 := newEngine(t, nil), newEngine(t, nil), newEngine(t, nil), newEngine(t, nil)
	f := start(t, nil, func(s *setup) {
		s.pools = []router.PoolSpec{pool("blue", blue.url), pool("green", green.url), pool("ic1", ic1.url), pool("ic2", ic2.url), pool("spare", blue.url)}
		s.variants = []sagemaker.Variant{
			{Endpoint: "ep", Name: "blue", Weight: 3},
			{Endpoint: "ep", Name: "green", Weight: 1},
			{Endpoint: "parts", Component: "one", Name: "ic1", Weight: 1},
			{Endpoint: "parts", Component: "two", Name: "ic2", Weight: 1},
			{Endpoint: "ep", Name: "spare", Weight: 0},
		}
	})
	const requests = 400
	count := map[string]int{}
	for range requests {
		count[f.send(invoke, chat("x")).Header.Get("X-Amzn-Invoked-Production-Variant")]++
	}
	if count["blue"]+count["green"] != requests || count["green"] < requests/8 || count["green"] > requests*3/8 {
		t.Errorf("by weight: %v", count)
	}
	for _, test := range []struct{ path, header, value, want string }{
		{invoke, "X-Amzn-SageMaker-Target-Variant", "green", "green"},
		{invoke, "X-Amzn-SageMaker-Target-Variant", "spare", "spare"},
		{stream, "X-Amzn-SageMaker-Target-Variant", "green", "green"},
		{compat, "X-Amzn-SageMaker-Target-Variant", "green", "green"},
		{"/endpoints/parts/invocations", "X-Amzn-SageMaker-Inference-Component", "two", "ic2"},
		{"/endpoints/parts/inference-components/one/openai/v1/chat/completions", "X", "", "ic1"},
		{"/endpoints/parts/openai/v1/chat/completions", "X-Amzn-SageMaker-Inference-Component", "one", "ic1"},
	} {
		got := f.send(test.path, chat("x"), test.header, test.value)
		if variant := got.Header.Get("X-Amzn-Invoked-Production-Variant"); got.StatusCode != http.StatusOK || variant != test.want {
			t.Errorf("%s with %s %q: %d from %q, want %q", test.path, test.header, test.value, got.StatusCode, variant, test.want)
		}
	}
	for _, test := range []struct{ path, header, value, want string }{
		{"/endpoints/parts/invocations", "X", "", "inference components only"},
		{"/endpoints/parts/invocations", "X-Amzn-SageMaker-Inference-Component", "three", `no inference component "three"`},
		{"/endpoints/parts/invocations", "X-Amzn-SageMaker-Target-Variant", "ic1", `no variant "ic1"`},
		{invoke, "X-Amzn-SageMaker-Inference-Component", "one", "has no inference components"},
		{invoke, "X-Amzn-SageMaker-Target-Variant", "red", `no variant "red"`},
	} {
		p := f.send(test.path, chat("x"), test.header, test.value).problem(t, http.StatusBadRequest, "ValidationError")
		if !strings.Contains(p.Message, test.want) {
			t.Errorf("%s with %s %q: %s", test.path, test.header, test.value, p.Message)
		}
	}
	f.idle()
}

// OpenAI's clients get what the engine said, and streams of plain events.
func TestCompatiblePath(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, delta, usageChunk, done)
	})
	f := start(t, []string{e.url})
	got := f.send(compat, chat("hello", `,"stream":true`))
	if got.err != nil || got.body != delta+done || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("got %q %v, %v", got.body, got.Header, got.err)
	}
	if s := e.last(t); s.uri != "/v1/chat/completions" || !strings.Contains(s.body, `"stream_options":{"include_usage":true}`) {
		t.Errorf("the engine got %s %s", s.uri, s.body)
	}
	if r := f.record(1); r.Usage.Cached != 64 || r.Route != "/endpoints/{endpoint}/openai/v1/chat/completions" {
		t.Errorf("recorded as %+v", r)
	}
	const refusal = `{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}`
	strict := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(refusal))
	})
	f = start(t, []string{strict.url})
	for _, path := range []string{compat, "/invocations"} {
		if got := f.send(path, chat("hello")); got.StatusCode != http.StatusBadRequest || got.body != refusal {
			t.Errorf("%s: got %d %s", path, got.StatusCode, got.body)
		}
	}
}

// 25 MiB pass where the limit says so, and not a byte more.
func TestLargeBodies(t *testing.T) {
	frame := len(chat(""))
	for path, limit := range map[string]int{invoke: 25 << 20, compat: 1 << 18, "/invocations": 1 << 18} {
		e := newEngine(t, nil)
		f := start(t, []string{e.url}, func(s *setup) { s.bodyBytes = int64(limit) })
		body := chat(strings.Repeat("x", limit-frame))
		got := f.send(path, body)
		if got.StatusCode != http.StatusOK || e.last(t).body != body {
			t.Errorf("%s: %d bytes: %d", path, len(body), got.StatusCode)
		}
		p := f.send(path, body+" ").problem(t, http.StatusRequestEntityTooLarge, "ValidationError")
		if !strings.Contains(p.Message, "limits.sagemaker_body_bytes") {
			t.Errorf("%s: %s", path, p.Message)
		}
	}
}

// The same body goes to engines unchanged where nothing has to be known of it.
func TestUsageIsAskedOnlyOfKnownShapes(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, []string{e.url})
	want := map[string]string{
		`{"instances":[],"stream":true}`:  `{"instances":[],"stream":true}`,
		`{"input":"x","stream":true}`:     `{"input":"x","stream":true}`,
		`{"messages":[],"stream":true}`:   `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":"x","stream":true}`:    `{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[]}`:                 `{"messages":[]}`,
		`{"messages":[],"stream":"nope"}`: `{"messages":[],"stream":"nope"}`,
	}
	got := map[string]string{}
	for body := range want {
		f.send(invoke, body)
		got[body] = e.last(t).body
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
