package proxy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// story returns text of some kilobytes that starts the same for the same name.
func story(name string, length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		fmt.Fprintf(&b, "Line %d of the story of %s. ", i, name)
	}
	return b.String()[:length]
}

// echoes starts n engines that note who was asked and answer by what was asked for.
func echoes(t testing.TB, n int) (urls []string, got *seen) {
	got = new(seen)
	for range n {
		urls = append(urls, engine(t, func(w http.ResponseWriter, r *http.Request) {
			body := readAll(r)
			got.add(request{r.Host, r.Method, r.URL.RequestURI(), r.Header.Clone(), body, r.ContentLength})
			if strings.Contains(body, `"stream":true`) {
				startEvents(w)
				events(w, delta, finish, done)
				return
			}
			writeWhole(w)
		}))
	}
	return urls, got
}

type request struct {
	host, method, uri string
	header            http.Header
	body              string
	length            int64
}

type seen struct {
	mu  sync.Mutex
	all []request
}

func (s *seen) add(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

func (s *seen) last() request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[len(s.all)-1]
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func wantOK(t testing.TB, a answer) {
	t.Helper()
	if a.StatusCode != http.StatusOK || a.err != nil {
		t.Fatalf("got %d %s (%v)", a.StatusCode, a.body, a.err)
	}
}

// jsonError checks that an answer is an error in OpenAI's shape and returns its type
// and code.
func jsonError(t *testing.T, a answer) (kind, code string) {
	t.Helper()
	var e struct {
		Error struct {
			Message, Type string
			Code          *string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error.Message == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %q (%s) is no error of this dialect", a.StatusCode, a.body, a.Header.Get("Content-Type"))
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return e.Error.Type, code
}

// follows sends two requests and checks that the second follows the first because of
// what they have in common.
func follows(t *testing.T, f *fleet, n int, path, first, second string) {
	t.Helper()
	wantOK(t, f.send("POST", path, first))
	a := f.last(n + 1)
	wantOK(t, f.send("POST", path, second))
	b := f.last(n + 2)
	if !a.HasPrefix || !b.HasPrefix {
		t.Fatalf("no usable prefix: %d and %d blocks", a.PromptBlocks, b.PromptBlocks)
	}
	if a.Backend != b.Backend || b.MatchedBlocks < min(a.PromptBlocks, b.PromptBlocks)-1 {
		t.Errorf("%s then %s (%s), %d of %d blocks matched", a.Backend, b.Backend, b.Reason, b.MatchedBlocks, b.PromptBlocks)
	}
}

func TestRP01StringAndParts(t *testing.T) {
	urls, got := echoes(t, 3)
	f := start(t, urls)
	text := story("parts", 4000)
	parts := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":%q}]}]}`, text)
	follows(t, f, 0, chatPath, chat(text), parts)
	if got.last().body != parts {
		t.Error("the body was changed on its way")
	}
	f.settled(2)
}

func TestRP03CompletionPrompts(t *testing.T) {
	urls, _ := echoes(t, 3)
	f := start(t, urls)
	ids, err := json.Marshal(make([]int, 2000))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range []string{`[1,2,3]`, `["a","b"]`, `[[1,2],[3]]`, `"a"`} {
		wantOK(t, f.send("POST", "/v1/completions", `{"model":"m","prompt":`+p+`}`))
		n++
	}
	for _, p := range []string{string(ids), `[` + string(ids) + `,[3]]`, fmt.Sprintf("[%q,%q]", story("batch", 3000), "b")} {
		body := `{"model":"m","prompt":` + p + `}`
		follows(t, f, n, "/v1/completions", body, body)
		n += 2
	}
	f.settled(n)
}

func TestRP09LargeBodies(t *testing.T) {
	urls, got := echoes(t, 2)
	const limit = 16 << 20
	f := start(t, urls, func(s *setup) {
		s.options.Limits.BodyBytes = limit
		s.options.Limits.BodiesInFlightBytes = 4 * limit
	})
	image := func(n int) string { return chat("data:image/png;base64," + strings.Repeat("A", n)) }
	wantOK(t, f.send("POST", chatPath, image(8<<20)))
	if l := len(got.last().body); l != len(image(8<<20)) {
		t.Errorf("the engine got %d bytes", l)
	}
	for i, chunked := range []bool{false, true} {
		var body io.Reader = strings.NewReader(image(limit))
		if chunked {
			body = struct{ io.Reader }{body}
		}
		a := f.do(f.request(t.Context(), "POST", chatPath, body))
		if _, code := jsonError(t, a); a.StatusCode != http.StatusRequestEntityTooLarge || code != "request_too_large" || !strings.Contains(a.body, "limits.body_bytes") {
			t.Errorf("got %d %s", a.StatusCode, a.body)
		}
		if r := f.last(2 + i); r.Status != http.StatusRequestEntityTooLarge || r.Result != feedback.Rejected {
			t.Errorf("record: %d %v", r.Status, r.Result)
		}
	}
	if got.count() != 1 {
		t.Errorf("engines were asked %d times", got.count())
	}
	f.settled(3)
}

// The bodies of all requests together are bounded as well, and what does not fit is
// answered rather than kept waiting.
func TestRP09ManyLargeBodies(t *testing.T) {
	hold := newGate(t)
	arrived := make(chan struct{}, 64)
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		arrived <- struct{}{}
		<-hold
		writeWhole(w)
	})
	f := start(t, []string{url}, func(s *setup) {
		s.options.Limits = proxy.Limits{BodyBytes: 1 << 20, BodiesInFlightBytes: 4 << 20}
	})
	body := chat(strings.Repeat("x", 1000<<10))
	statuses := make(chan int, 50)
	var senders sync.WaitGroup
	for i := range 50 {
		senders.Go(func() { statuses <- f.send("POST", chatPath, body).StatusCode })
		if i < 4 {
			<-arrived
		}
	}
	for range 46 { // all that do not fit are answered while the others are held
		if s := <-statuses; s != http.StatusServiceUnavailable {
			t.Errorf("got %d", s)
		}
	}
	if held := f.proxy.Bodies().Held(); held > 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
	hold.open()
	senders.Wait()
	for range 4 {
		if s := <-statuses; s != http.StatusOK {
			t.Errorf("got %d", s)
		}
	}
	f.settled(50)
}

func TestRP10ChunkedUploads(t *testing.T) {
	urls, got := echoes(t, 3)
	f := start(t, urls)
	body := chat(story("chunks", 3000) + "é漢🙂")
	wantOK(t, f.send("POST", chatPath, body))
	first := f.last(1)
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", chatPath)
	var wire bytes.Buffer
	for i := range len(body) {
		wire.WriteString("1\r\n")
		wire.WriteByte(body[i])
		wire.WriteString("\r\n")
	}
	wire.WriteString("0\r\n\r\n")
	conn.Write(wire.Bytes())
	if all, _ := io.ReadAll(conn); !bytes.HasPrefix(all, []byte("HTTP/1.1 200")) {
		t.Fatalf("got %s", all)
	}
	second := f.last(2)
	if got.last().body != body || got.last().length != int64(len(body)) {
		t.Error("the engine got another body")
	}
	if second.Backend != first.Backend || second.MatchedBlocks != first.PromptBlocks {
		t.Errorf("%d of %d blocks matched", second.MatchedBlocks, first.PromptBlocks)
	}
	f.settled(2)
}

func TestRP11UnknownModelsAndMalformedBodies(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	n := 0
	for _, test := range []struct {
		name, body string
		status     int
		code       string
		result     feedback.Result
	}{
		{"unknown model", `{"model":"nope","messages":[]}`, 404, "model_not_found", feedback.NotFound},
		{"missing model", `{"messages":[]}`, 400, "", feedback.Rejected},
		{"model is null", `{"model":null,"messages":[]}`, 400, "", feedback.Rejected},
		{"model is a number", `{"model":3,"messages":[]}`, 400, "", feedback.Rejected},
		{"broken", `{"model":`, 400, "", feedback.Rejected},
		{"empty", ``, 400, "", feedback.Rejected},
		{"array", `[1]`, 400, "", feedback.Rejected},
		{"a name of a megabyte", `{"model":"` + strings.Repeat("n", 1<<20) + `"}`, 404, "model_not_found", feedback.NotFound},
	} {
		a := f.send("POST", chatPath, test.body)
		n++
		kind, code := jsonError(t, a)
		if a.StatusCode != test.status || kind != "invalid_request_error" || code != test.code || len(a.body) > 1000 {
			t.Errorf("%s: got %d %s", test.name, a.StatusCode, printed(a.body))
		}
		if r := f.last(n); r.Model != "" || r.Pool != "" || r.Result != test.result || r.Status != test.status {
			t.Errorf("%s: record %+v", test.name, r)
		}
		a = f.send("POST", "/v1/messages", test.body)
		n++
		if a.StatusCode != test.status || !strings.HasPrefix(a.body, `{"type":"error","error":{"type":"`) {
			t.Errorf("%s: Anthropic got %d %s", test.name, a.StatusCode, printed(a.body))
		}
	}
	if got.count() != 0 {
		t.Error("an engine was asked")
	}
	f.settled(n)
}

func printed(s string) string { return s[:min(len(s), 300)] }

func TestRP12MultipartForms(t *testing.T) {
	urls, got := echoes(t, 2)
	f := start(t, urls)
	for i, modelFirst := range []bool{false, true} {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		w.SetBoundary("--=_odd'boundary()+_,-./:=?")
		if modelFirst {
			w.WriteField("model", model)
		}
		file, _ := w.CreateFormFile("file", "speech.wav")
		file.Write(bytes.Repeat([]byte{0, 0xff, '\r', '\n', '-'}, 780<<10/5))
		if !modelFirst {
			w.WriteField("model", model)
		}
		w.Close()
		a := f.send("POST", "/v1/audio/transcriptions", form.String(), "Content-Type", w.FormDataContentType(), "Authorization", "Bearer k")
		wantOK(t, a)
		r := got.last()
		if r.body != form.String() || r.header.Get("Content-Type") != w.FormDataContentType() || r.header.Get("Authorization") != "Bearer k" {
			t.Errorf("the engine got %d bytes of %s", len(r.body), r.header.Get("Content-Type"))
		}
		if rec := f.last(i + 1); rec.Model != model || rec.HasPrefix {
			t.Errorf("record %+v", rec)
		}
	}
	f.settled(2)
}

func TestRP13Responses(t *testing.T) {
	urls, _ := echoes(t, 3)
	f := start(t, urls)
	text := story("responses", 4000)
	item := fmt.Sprintf(`[{"role":"user","content":%q},{"role":"user","content":"more"}]`, text)
	n := 0
	for _, body := range [][2]string{
		{fmt.Sprintf(`{"model":"m","input":%q}`, text), fmt.Sprintf(`{"model":"m","input":%s}`, item)},
		{fmt.Sprintf(`{"model":"m","instructions":%q,"input":"a"}`, story("i", 4000)), fmt.Sprintf(`{"model":"m","instructions":%q,"input":"b"}`, story("i", 4000))},
	} {
		follows(t, f, n, "/v1/responses", body[0], body[1])
		n += 2
	}
}

func TestRP14AnthropicMessages(t *testing.T) {
	const stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":20,\"cache_read_input_tokens\":480}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Anthropic-Version") != "2023-06-01" || r.Header.Get("X-Api-Key") != "k" {
			t.Errorf("the engine got %v", r.Header)
		}
		startEvents(w)
		events(w, stream)
	}
	f := start(t, []string{engine(t, h), engine(t, h), engine(t, h)})
	system := story("system", 4000)
	bodies := []string{
		fmt.Sprintf(`{"model":"m","stream":true,"system":%q,"messages":[{"role":"user","content":"a"}]}`, system),
		fmt.Sprintf(`{"model":"m","stream":true,"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}]}`, system),
	}
	var where []string
	for i, body := range bodies {
		a := f.send("POST", "/v1/messages", body, "Anthropic-Version", "2023-06-01", "X-Api-Key", "k")
		if a.body != stream {
			t.Errorf("got %q", a.body)
		}
		r := f.last(i + 1)
		where = append(where, r.Backend)
		if r.Usage.Cached != 480 || r.Usage.Prompt != 500 || r.Result != feedback.Success {
			t.Errorf("record: %v, usage %+v", r.Result, r.Usage)
		}
	}
	if where[0] != where[1] {
		t.Errorf("went to %v", where)
	}
	f.settled(2)
}

func TestRP15RequestsWithoutBody(t *testing.T) {
	urls, got := echoes(t, 2)
	f := start(t, urls, func(s *setup) { s.models = nil })
	for _, b := range f.pool.Backends() {
		b.SetModels([]backends.Model{{ID: "org/name", JSON: []byte(`{"id":"org/name","max_model_len":8}`)}})
	}
	n := 0
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/models", 200, `{"object":"list","data":[{"id":"org/name","max_model_len":8}]}`},
		{"GET", "/v1/models/org/name", 200, `{"id":"org/name","max_model_len":8}`},
		{"GET", "/v1/models/org%2Fname", 200, `{"id":"org/name","max_model_len":8}`},
		{"GET", "/v1/models/other", 404, "model_not_found"},
		{"GET", "/v1/responses/resp_1", 404, "resp_1"},
		{"DELETE", "/v1/responses/resp_1", 404, "resp_1"},
		{"POST", "/v1/responses/resp_1/cancel", 404, "resp_1"},
		{"HEAD", "/health", 200, ""},
		{"GET", "/health", 200, ""},
		{"GET", "/ping", 200, ""},
		{"OPTIONS", chatPath, 204, ""},
		{"OPTIONS", "/v1/models", 204, ""},
		{"HEAD", chatPath, 405, ""},
		{"GET", chatPath, 405, "method_not_allowed"},
		{"DELETE", "/v1/models", 405, "method_not_allowed"},
		{"GET", "/v1/messages", 405, `"type":"error"`},
		{"OPTIONS", "/v1/messages", 204, ""},
		{"GET", "/v1/messages/nothing", 404, `"type":"error"`},
		{"POST", chatPath, 400, "empty"},
		{"POST", "/v1/embeddings", 400, "empty"},
		{"POST", "/v1/messages", 400, "empty"},
		{"POST", "/v1/audio/transcriptions", 400, "multipart"},
	} {
		a := f.send(test.method, test.path, "")
		n++
		if a.StatusCode != test.status || !strings.Contains(a.body, test.want) {
			t.Errorf("%s %s: got %d %q, want %d %q", test.method, test.path, a.StatusCode, a.body, test.status, test.want)
		}
		if (test.status == 405 || test.status == 204) && a.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", test.method, test.path)
		}
	}
	if got.count() != 0 {
		t.Error("an engine was asked")
	}
	f.settled(n)
}

func TestRP16EmbeddingsGoByLoad(t *testing.T) {
	urls, got := echoes(t, 3)
	f := start(t, urls)
	long := make([]string, 2048)
	for i := range long {
		long[i] = story("embedding", 600)
	}
	texts, _ := json.Marshal(long)
	n := 0
	for _, input := range []string{string(texts), `[[1,2,3],[4,5]]`, `"x","encoding_format":"base64"`} {
		wantOK(t, f.send("POST", "/v1/embeddings", `{"model":"m","input":`+input+`}`))
		n++
		if r := f.last(n); r.HasPrefix || r.PromptBlocks != 0 || r.Reason != "no_prefix" {
			t.Errorf("record %+v", r)
		}
	}
	for _, s := range f.pool.Status(f.last(n).Start) {
		if s.Index.Blocks != 0 {
			t.Errorf("backend %s has %d index entries", s.Backend.ID, s.Index.Blocks)
		}
	}
	for range 57 {
		wantOK(t, f.send("POST", "/v1/embeddings", `{"model":"m","input":"x"}`))
		n++
	}
	f.await(n)
	per := map[string]int{}
	for _, r := range got.all {
		per[r.host]++
	}
	for host, count := range per {
		if count < 10 || count > 30 {
			t.Errorf("%s got %d of %d", host, count, n)
		}
	}
	f.settled(n)
}

func TestRP19EnginePaths(t *testing.T) {
	urls, got := echoes(t, 2)
	f := start(t, urls)
	n := 0
	for _, path := range []string{
		"/tokenize", "/detokenize", "/v1/rerank", "/rerank", "/v2/rerank", "/score", "/v1/score", "/pooling", "/classify",
		"/v1/messages/count_tokens", "/v1/chat/completions/batch",
	} {
		wantOK(t, f.send("POST", path, `{"model":"m","text":"x"}`))
		n++
		if uri := got.last().uri; uri != path {
			t.Errorf("%s came as %s", path, uri)
		}
	}
	asked := got.count()
	for _, path := range []string{
		"/v1/does-not-exist", "/sleep", "/wake_up", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/reset_prefix_cache",
		"/metrics", "/collective_rpc", "/load", "/v1/chat/completions/", "/",
	} {
		for _, method := range []string{"GET", "POST"} {
			a := f.send(method, path, `{"model":"m"}`)
			n++
			if jsonError(t, a); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: got %d", method, path, a.StatusCode)
			}
			if r := f.last(n); r.Route != "other" || r.Result != feedback.NotFound {
				t.Errorf("%s: recorded as %q, %v", path, r.Route, r.Result)
			}
		}
	}
	if got.count() != asked {
		t.Error("an engine was asked")
	}
	f.settled(n)
}

// The id of a stored answer cannot lead to another path of an engine, whoever decodes and
// tidies paths on the way.
func TestRP19StoredIDsAreNoPaths(t *testing.T) {
	urls, got := echoes(t, 1)
	f := start(t, urls)
	n := 0
	for _, id := range []string{
		"..%2f..%2fmetrics", "%2e%2e%2f%2e%2e%2fmetrics", "%2e%2e", "%2e", "..%5c..%5csleep", "a%2fb", "a%3fb", "a%23b", "a%25b", "a%0d%0ab", "a%3bb",
		strings.Repeat("a", 600),
	} {
		for _, request := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}} {
			a := f.send(request[0], "/v1/responses/"+id+request[1], "")
			n++
			if jsonError(t, a); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s%s: got %d", request[0], id, request[1], a.StatusCode)
			}
		}
	}
	if got.count() != 0 {
		t.Errorf("an engine was asked for %s", got.last().uri)
	}
	wantOK(t, f.send("GET", "/v1/responses/resp_0a-B.c~d:e", ""))
	f.settled(n + 1)
}

// A request about no model can only be meant for the one there is.
func TestModelMayBeLeftOutWhereThereIsOne(t *testing.T) {
	urls, _ := echoes(t, 1)
	f := start(t, urls, func(s *setup) { s.models = s.models[:1] })
	wantOK(t, f.send("POST", "/tokenize", `{"prompt":"x"}`))
	if a := f.send("POST", chatPath, `{"messages":[]}`); a.StatusCode != http.StatusBadRequest {
		t.Errorf("chat without a model: %d", a.StatusCode)
	}
	g := start(t, urls)
	if a := g.send("POST", "/tokenize", `{"prompt":"x"}`); a.StatusCode != http.StatusBadRequest {
		t.Errorf("two models: %d", a.StatusCode)
	}
}

func TestCompressedBodies(t *testing.T) {
	urls, got := echoes(t, 1)
	const limit = 1 << 20
	f := start(t, urls, func(s *setup) { s.options.Limits.BodyBytes = limit })
	gz := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	zst := func(text string) string {
		var b bytes.Buffer
		w, _ := zstd.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	body, bomb := chat(story("compressed", 20000)), chat(strings.Repeat("x", 16<<20))
	n := 0
	for _, test := range []struct {
		name, encoding, body string
		status               int
	}{
		{"gzip", "gzip", gz(body), 200},
		{"zstd", "zstd", zst(body), 200},
		{"upper case", "GZIP", gz(body), 200},
		{"identity", "identity", body, 200},
		{"gzip bomb", "gzip", gz(bomb), 413},
		{"zstd bomb", "zstd", zst(bomb), 413},
		{"not gzip", "gzip", body, 400},
		{"not zstd", "zstd", body, 400},
		{"cut gzip", "gzip", gz(body)[:200], 400},
		{"cut zstd", "zstd", zst(body)[:200], 400},
		{"unknown", "br", body, 415},
		{"two", "gzip, zstd", body, 415},
	} {
		asked := got.count()
		a := f.send("POST", chatPath, test.body, "Content-Encoding", test.encoding)
		n++
		if a.StatusCode != test.status {
			t.Errorf("%s: got %d %s, want %d", test.name, a.StatusCode, a.body, test.status)
			continue
		}
		if r := f.last(n); r.RequestBytes > int64(len(test.body)) || test.status == 200 && r.RequestBytes != int64(len(test.body)) {
			t.Errorf("%s: %d bytes recorded, %d were sent", test.name, r.RequestBytes, len(test.body))
		}
		if test.status != http.StatusOK {
			jsonError(t, a)
			if got.count() != asked {
				t.Errorf("%s: an engine was asked", test.name)
			}
			continue
		}
		if r := got.last(); r.body != body || r.length != int64(len(body)) || test.name != "identity" && r.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: the engine got %d bytes, %v", test.name, len(r.body), r.header)
		}
	}
	f.settled(n)
}

// What parsing takes counts while it is needed and no longer: a body of many values
// needs room to be read, and waits for its answer with its bytes alone.
func TestReadingIsBounded(t *testing.T) {
	hold := newGate(t)
	arrived := make(chan struct{}, 2)
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		arrived <- struct{}{}
		<-hold
		writeWhole(w)
	})
	f := start(t, []string{url}, func(s *setup) {
		s.options.Limits = proxy.Limits{BodyBytes: 1 << 20, BodiesInFlightBytes: 1 << 20}
	})
	dense := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[%s{}]}]}`, model, strings.Repeat("{},", 50_000))
	first := make(chan answer, 1)
	go func() { first <- f.send("POST", chatPath, dense) }() // alone, it may
	<-arrived
	if held := f.proxy.Bodies().Held(); held != int64(len(dense)) {
		t.Errorf("%d bytes are held for a body of %d", held, len(dense))
	}
	a := f.send("POST", chatPath, dense)
	if _, code := jsonError(t, a); a.StatusCode != http.StatusServiceUnavailable || code != "busy" || a.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", a.StatusCode, a.body)
	}
	second := make(chan answer, 1)
	go func() { second <- f.send("POST", chatPath, chat("few values")) }()
	<-arrived
	hold.open()
	wantOK(t, <-first)
	wantOK(t, <-second)
	f.settled(3)
}

// The name of the field at fault is in the message: not every dialect has a place for it.
func TestFaultsNameTheirField(t *testing.T) {
	urls, _ := echoes(t, 1)
	f := start(t, urls)
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + strings.Repeat("m", 2000) + "\r\n--b--\r\n"
	for i, a := range []answer{
		f.send("POST", "/v1/messages", `{"model":1,"messages":[]}`),
		f.send("POST", chatPath, `{"model":1,"messages":[]}`),
		f.send("POST", "/v1/audio/translations", form, "Content-Type", "multipart/form-data; boundary=b"),
	} {
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, `"message":"model: must be`) {
			t.Errorf("%d: got %d %s", i, a.StatusCode, a.body)
		}
	}
	f.settled(3)
}
