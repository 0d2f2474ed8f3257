package proxy_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

func TestChatWhole(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != chat("hello") || r.URL.Path != chatPath {
			t.Errorf("the engine got %s %s", r.URL.Path, body)
		}
		writeWhole(w)
	})})
	got := f.send("POST", chatPath, chat("hello"))
	if got.StatusCode != http.StatusOK || got.body != whole {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	r := f.last(1)
	if r.Result != feedback.Success || !r.Usage.HasCached || r.Usage.Cached != 64 {
		t.Errorf("record %+v", r)
	}
	f.settled(1)
}

func TestPS01ClientLeavesBeforeHeaders(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	calls := make(chan string, 8)
	slow := func(w http.ResponseWriter, r *http.Request) {
		calls <- r.Host
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(left)
	}
	f := start(t, []string{engine(t, slow), engine(t, slow)})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-arrived
		leave()
	}()
	if resp, err := f.client.Do(f.request(ctx, "POST", chatPath, strings.NewReader(chat("hello")))); err == nil {
		resp.Body.Close()
		t.Fatal("there was an answer")
	}
	waitFor(t, "the engine is told that the client left", left)
	r := f.last(1)
	if r.Status != 499 || r.Result != feedback.ClientClosed || r.Attempts != 1 {
		t.Errorf("record: status %d, %v, %d attempts; want 499, client_closed, 1", r.Status, r.Result, r.Attempts)
	}
	if n := len(calls); n != 1 {
		t.Errorf("%d engines were asked, want 1", n)
	}
	f.settled(1)
	for _, b := range f.pool.Backends() {
		if s := b.State(time.Now()); s != backends.Up {
			t.Errorf("backend %s is %v", b.ID, s)
		}
	}
	// The engine is not blamed however often clients leave.
}

// Middleware that catches panics must neither see a stack nor write into the answer.
func TestPS03ResetInTheMiddle(t *testing.T) {
	caught := make(chan any, 4)
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, delta, delta, delta)
		reset(w)
	})}, func(s *setup) {
		s.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if cause := recover(); cause != nil {
						caught <- cause
						if cause != http.ErrAbortHandler {
							http.Error(w, "Internal Server Error", http.StatusInternalServerError)
							return
						}
						panic(cause)
					}
				}()
				next.ServeHTTP(w, r)
			})
		}
	})
	got := f.send("POST", chatPath, chat("hello", streaming))
	if got.err == nil {
		t.Error("the body ends as if it were whole")
	}
	if rest, ok := strings.CutPrefix(got.body, delta+delta+delta); !ok || strings.Contains(rest, "Internal") || strings.Contains(rest, "[DONE]") {
		t.Errorf("got %q", got.body)
	}
	r := f.last(1)
	if r.Result != feedback.UpstreamAborted || r.Status != http.StatusOK {
		t.Errorf("record: %v, status %d", r.Result, r.Status)
	}
	if cause := <-caught; cause != http.ErrAbortHandler || len(caught) != 0 {
		t.Errorf("the middleware caught %v", cause)
	}
	if log := f.log.String(); log != "" {
		t.Errorf("logged: %s", log)
	}
	f.settled(1)
}

func TestPS04EngineDiesMidStream(t *testing.T) {
	const (
		created = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"in_progress\"}}\n\n"
		text    = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
		message = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n"
		piece   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	)
	for _, test := range []struct {
		name, path, body string
		events           []string
		marker           string // in what is added, "" when nothing may be
	}{
		{"chat", chatPath, chat("hello", streaming), []string{delta, delta}, `data: {"error":{`},
		{"chat with usage", chatPath, chat("hello", streaming, `,"stream_options":{"include_usage":true}`), []string{delta, delta}, `data: {"error":{`},
		{"completions", "/v1/completions", `{"model":"m","prompt":"hello","stream":true}`, []string{delta, delta}, `data: {"error":{`},
		{"responses", "/v1/responses", `{"model":"m","input":"hello","stream":true}`, []string{created, text}, "event: response.failed\ndata: {"},
		{"messages", "/v1/messages", `{"model":"m","messages":[],"stream":true}`, []string{message, piece}, "event: error\ndata: {\"type\":\"error\""},
		{"inside an event", chatPath, chat("hello", streaming, `,"stream_options":{"include_usage":true}`), []string{delta, delta[:40]}, ""},
		{"inside an event that is held back", chatPath, chat("hello", streaming), []string{delta, delta[:40]}, `data: {"error":{`},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
				startEvents(w)
				events(w, test.events...)
				hangUp(w)
			})})
			got := f.send("POST", test.path, test.body)
			if got.err == nil {
				t.Error("the body ends as if it were whole")
			}
			sent := strings.Join(test.events, "")
			if strings.Contains(test.name, "held back") {
				sent = test.events[0]
			}
			added, ok := strings.CutPrefix(got.body, sent)
			if !ok {
				t.Fatalf("got %q, want it to start with %q", got.body, sent)
			}
			if test.marker == "" && added != "" || !strings.HasPrefix(added, test.marker) || strings.Contains(added, "[DONE]") {
				t.Errorf("added %q, want %q", added, test.marker)
			}
			if test.name == "responses" && !strings.Contains(added, `"id":"resp_1"`) {
				t.Errorf("%q does not name the response", added)
			}
			if r := f.last(1); r.Result != feedback.UpstreamAborted || r.Attempts != 1 {
				t.Errorf("record: %v after %d attempts", r.Result, r.Attempts)
			}
			f.settled(1)
		})
	}
}

// A stream that ends in good order, and says that there is more of it, must not look finished
// to its client: it is told in its dialect, and the connection ends abnormally.
func TestPS04StreamWithoutItsEnd(t *testing.T) {
	const begun = `data: {"type":"response.output_text.delta","delta":"hi"}` + "\n\n"
	const spoken = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}` + "\n\n"
	for name, test := range map[string]struct {
		path, sent, told string
	}{
		"chunks":    {chatPath, delta + delta, `{"error":{`},
		"responses": {"/v1/responses", begun + begun, `response.failed`},
		"messages":  {"/v1/messages", spoken + spoken, `"type":"error"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
				startEvents(w)
				events(w, test.sent)
			})})
			got := f.send("POST", test.path, chat("hello", streaming))
			added, passed := strings.CutPrefix(got.body, test.sent)
			if got.err == nil || !passed || !strings.Contains(added, test.told) || !strings.Contains(added, "the stream ended early") {
				t.Errorf("got %q, %v", got.body, got.err)
			}
			if r := f.last(1); r.Result != feedback.UpstreamAborted {
				t.Errorf("recorded as %v", r.Result)
			}
			f.settled(1)
		})
	}
}

// A stream that says why its text is finished, or that is in no known dialect, is passed on as
// it is although it lacks a last event.
func TestPS04StreamThatIsFinishedAllTheSame(t *testing.T) {
	const foreign = `data: {"token":{"text":"hi"},"generated_text":null}` + "\n\n"
	for name, sent := range map[string]string{"a reason": delta + finish, "no chunks": foreign + foreign} {
		t.Run(name, func(t *testing.T) {
			f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
				startEvents(w)
				events(w, sent)
			})})
			if got := f.send("POST", chatPath, chat("hello", streaming)); got.err != nil || got.body != sent {
				t.Errorf("got %q, %v", got.body, got.err)
			}
			if r := f.last(1); r.Result != feedback.UpstreamAborted {
				t.Errorf("recorded as %v", r.Result)
			}
			f.settled(1)
		})
	}
}

// Every event reaches the client before the engine sends the next: the engine waits
// for the client to have it.
func TestPS06EveryEventAtOnce(t *testing.T) {
	for contentType, event := range map[string]string{
		"text/event-stream; charset=utf-8": delta,
		"text/event-stream":                delta,
		"application/x-ndjson":             `{"choices":[{"delta":{"content":"hi"}}]}` + "\n",
		"":                                 "something else\n",
	} {
		t.Run(contentType, func(t *testing.T) {
			seen := make(chan struct{})
			f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{contentType}
				w.WriteHeader(http.StatusOK)
				flush(w)
				for range 5 {
					<-seen // the headers, then each event
					events(w, event)
				}
			})})
			resp, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("hello", streaming))))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			buf := make([]byte, len(event))
			for range 5 {
				seen <- struct{}{}
				if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != event {
					t.Fatalf("got %q, %v", buf, err)
				}
			}
			f.settled(1)
		})
	}
}

func TestPS07NothingIsCompressedOrHeldBack(t *testing.T) {
	seen := make(chan struct{})
	f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("the engine is asked for %q", got)
		}
		w.Header().Set("Cache-Control", "no-cache, no-transform")
		w.Header().Set("X-Accel-Buffering", "no")
		startEvents(w)
		<-seen
		events(w, delta, done)
	})})
	resp, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("hello", streaming)), "Accept-Encoding", "br, zstd, gzip"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for name, want := range map[string]string{"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	close(seen)
	if body, _ := io.ReadAll(resp.Body); string(body) != delta+done {
		t.Errorf("got %q", body)
	}
}

func TestPS11Comments(t *testing.T) {
	const comment, other = ": ping\n\n", ": OPENROUTER PROCESSING\n\n"
	seen := make(chan struct{})
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, comment, other)
		<-seen
		events(w, delta, comment, delta, other, usageChunk, done)
	})})
	resp, err := f.client.Do(f.request(t.Context(), "POST", chatPath, strings.NewReader(chat("hello", streaming, `,"stream_options":{"include_usage":true}`))))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	early := make([]byte, len(comment+other))
	if _, err := io.ReadFull(resp.Body, early); err != nil {
		t.Fatal(err)
	}
	gotComments := time.Now()
	close(seen)
	rest, _ := io.ReadAll(resp.Body)
	if got, want := string(early)+string(rest), comment+other+delta+comment+delta+other+usageChunk+done; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r := f.last(1)
	if r.Start.Add(r.TTFT).Before(gotComments) {
		t.Error("a comment was taken for the first token")
	}
	if r.Result != feedback.Success || r.Usage.Cached != 64 {
		t.Errorf("record: %v, %+v", r.Result, r.Usage)
	}
}

func TestPS13EnginesAreNotAskedToCompress(t *testing.T) {
	compressing := func(w http.ResponseWriter, r *http.Request) {
		var out io.Writer = w
		stream := strings.Contains(readAll(r), `"stream":true`)
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		if stream {
			io.WriteString(out, delta+usageChunk+done)
			return
		}
		io.WriteString(out, whole)
	}
	f := start(t, []string{engine(t, compressing)})
	for i, test := range []struct{ body, want string }{
		{chat("hello"), whole},
		{chat("hello", streaming), delta + done},
	} {
		got := f.send("POST", chatPath, test.body, "Accept-Encoding", "gzip")
		if got.body != test.want || got.Header.Get("Content-Encoding") != "" {
			t.Errorf("got %q (%s)", got.body, got.Header.Get("Content-Encoding"))
		}
		if r := f.last(i + 1); !r.Usage.HasCached || r.Usage.Cached != 64 {
			t.Errorf("usage %+v", r.Usage)
		}
	}
}

// An engine that compresses although it was asked not to gets through, and its usage
// is unknown rather than none.
func TestPS13EngineThatCompressesAllTheSame(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, delta+usageChunk+done)
		z.Close()
	})})
	got := f.send("POST", chatPath, chat("hello", streaming), "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(z); string(text) != delta+usageChunk+done {
		t.Errorf("got %q", text)
	}
	if r := f.last(1); r.Usage.HasPrompt || r.Usage.HasCached || r.Result != feedback.Success {
		t.Errorf("record: %v, usage %+v", r.Result, r.Usage)
	}
}

func TestPS15Trailers(t *testing.T) {
	for name, announce := range map[string]bool{"announced": true, "unannounced": false} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+" "+proto, func(t *testing.T) {
				url := engine(t, func(w http.ResponseWriter, _ *http.Request) {
					if announce {
						w.Header().Set("Trailer", "X-Usage")
					}
					startEvents(w)
					events(w, delta, done)
					if announce {
						w.Header().Set("X-Usage", "cached=64")
					} else {
						w.Header().Set(http.TrailerPrefix+"X-Usage", "cached=64")
					}
				})
				p := prepare(t, []string{url})
				server := httptest.NewUnstartedServer(p.handler)
				server.EnableHTTP2 = proto == "HTTP/2.0"
				if server.EnableHTTP2 {
					server.StartTLS()
				} else {
					server.Start()
				}
				t.Cleanup(server.Close)
				p.url, p.client = server.URL, server.Client()
				got := p.send("POST", chatPath, chat("hello", streaming), "Te", "trailers")
				if got.Proto != proto || got.body != delta+done || got.Trailer.Get("X-Usage") != "cached=64" {
					t.Errorf("%s: %q, trailer %v", got.Proto, got.body, got.Trailer)
				}
			})
		}
	}
}

func TestPS16ExpectContinue(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":"Unauthorized"}`)
	})})
	f.client.Transport.(*http.Transport).ExpectContinueTimeout = patience
	for i := range 3 {
		got := f.send("POST", chatPath, chat(strings.Repeat("x", 2<<20)), "Expect", "100-continue")
		if got.StatusCode != http.StatusUnauthorized || got.body != `{"error":"Unauthorized"}` {
			t.Errorf("request %d: %d %s", i, got.StatusCode, got.body)
		}
	}
	f.settled(3)
}

func TestPS17EngineRejectsEarly(t *testing.T) {
	refusal := `{"error":{"message":"too large"}}`
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.CopyN(io.Discard, conn, 64<<10)
			fmt.Fprintf(conn, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(refusal), refusal)
			conn.(*net.TCPConn).CloseWrite()
			// A close with unread bytes would be a reset that may overtake the answer.
			go func() {
				io.CopyN(io.Discard, conn, 1<<20)
				conn.Close()
			}()
		}
	}()
	f := start(t, []string{"http://" + l.Addr().String(), deadURL(t)})
	for range 5 {
		got := f.send("POST", chatPath, chat(strings.Repeat("x", 10<<20)))
		if got.StatusCode != http.StatusRequestEntityTooLarge || got.body != refusal {
			t.Errorf("got %d %s", got.StatusCode, got.body)
		}
	}
	f.settled(5)
}

func TestPS19Realtime(t *testing.T) {
	f := start(t, []string{engine(t, func(http.ResponseWriter, *http.Request) { t.Error("an engine was asked") })})
	got := f.send("GET", "/v1/realtime?model=m", "", "Connection", "Upgrade", "Upgrade", "websocket",
		"Sec-Websocket-Version", "13", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if got.StatusCode != http.StatusNotImplemented || !strings.Contains(got.body, `"error"`) {
		t.Errorf("got %d %s", got.StatusCode, got.body)
	}
	f.settled(1)
}

// Informational answers are passed over, and a switch of protocols is no answer.
func TestInformationalAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		first string
		want  int
	}{
		"100 and 103": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 200},
		"101":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") != "" || r.Header.Get("Connection") != "" {
					t.Errorf("the engine got %v", r.Header)
				}
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				rw.WriteString(test.first + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
				rw.Flush()
				io.Copy(io.Discard, conn)
			})})
			got := f.send("POST", chatPath, chat("hello"), "Connection", "Upgrade", "Upgrade", "x")
			if got.StatusCode != test.want {
				t.Errorf("got %d %s, want %d", got.StatusCode, got.body, test.want)
			}
			f.settled(1)
		})
	}
}

// A body that ends early is an error for the client too, and what came of it is there.
func TestBodyThatBreaksOff(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, whole[:100])
		flush(w)
		hangUp(w)
	})})
	got := f.send("POST", chatPath, chat("hello"))
	if got.err == nil || got.body != whole[:100] {
		t.Errorf("got %q, %v", got.body, got.err)
	}
	if r := f.last(1); r.Result != feedback.UpstreamAborted {
		t.Errorf("recorded as %v", r.Result)
	}
	f.settled(1)
}

// The bytes of a client that speaks plain sockets: what is on the wire, chunk by chunk.
func TestNoFakedEndOnTheWire(t *testing.T) {
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, delta)
		reset(w)
	})})
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := chat("hello", streaming)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
	all, _ := io.ReadAll(bufio.NewReader(conn))
	if text := string(all); !strings.Contains(text, `"hi"`) || strings.HasSuffix(text, "0\r\n\r\n") {
		t.Errorf("on the wire: %q", text)
	}
}

func readAll(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

// UF-06: the usage event is found wherever reads split it, and the client's bytes are
// the engine's.
func TestUF06SplitEvents(t *testing.T) {
	stream := delta + finish + usageChunk + done
	at := len(delta + finish)
	var splits [][]string
	for i := at; i <= at+len(usageChunk); i += 7 {
		splits = append(splits, []string{stream[:i], stream[i:]})
	}
	splits = append(splits, strings.Split(stream, ""))
	pieces := make(chan []string, 1)
	f := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		startEvents(w)
		events(w, <-pieces...)
	})})
	n := 0
	for _, asked := range []bool{true, false} {
		body, want := chat("hello", streaming), delta+finish+done
		if asked {
			body, want = chat("hello", streaming, `,"stream_options":{"include_usage":true}`), stream
		}
		for _, split := range splits {
			pieces <- split
			got := f.send("POST", chatPath, body)
			n++
			if diff := cmp.Diff(want, got.body); diff != "" {
				t.Fatalf("asked %v, split into %d: (-want +got)\n%s", asked, len(split), diff)
			}
			if r := f.last(n); r.Usage.Cached != 64 || r.Usage.Prompt != 100 {
				t.Fatalf("split into %d: usage %+v", len(split), r.Usage)
			}
		}
	}
	f.settled(n)
}

// Trailers that would frame a message, or that only this router sends, stay behind.
func TestTrailersThatFrame(t *testing.T) {
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-Usage\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n"+
			"X-Usage: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: evil\r\nConnection: close\r\nTrailer: X\r\nX-Warmroute-Backend: evil\r\n\r\n", len(whole), whole)
	})
	f := start(t, []string{url})
	got := f.send("POST", chatPath, chat("hello"), "Te", "trailers")
	if got.err != nil || got.body != whole || len(got.Trailer) != 1 || got.Trailer.Get("X-Usage") != "1" {
		t.Errorf("%v, %q, trailer %v", got.err, got.body, got.Trailer)
	}
	f.settled(1)
}
