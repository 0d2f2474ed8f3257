package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

const (
	role      = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	hello     = `data: {"choices":[{"delta":{"content":"hello"}}]}` + "\n\n"
	usage     = `data: {"choices":[],"usage":{"prompt_tokens":40,"prompt_tokens_details":{"cached_tokens":32}}}` + "\n\n"
	noDetails = `data: {"choices":[],"usage":{"prompt_tokens":40}}` + "\n\n"
	done      = "data: [DONE]\n\n"
)

func TestReadStream(t *testing.T) {
	for _, c := range []struct {
		name, stream, failure string
		cached                int
	}{
		{"whole", ": ping\n\n" + role + hello + usage + done, "", 32},
		{"no details", role + hello + noDetails + done, "", 0},
		{"what follows the end", hello + usage + done + "nonsense", "", 32},
		{"no usage", hello + done, "no usage", 0},
		{"no content", role + usage + done, "empty", 0},
		{"cut off", role + hello, "broke off", 0},
		{"error event", hello + `data: {"error":{"message":"engine gone"}}` + "\n\n" + done, "engine gone", 0},
		{"not JSON", "data: {\n\n", "not JSON", 0},
		{"endless line", "data: " + strings.Repeat("x", maxEventBytes+1), "broke off", 0},
	} {
		var a answer
		err := a.read(strings.NewReader(c.stream), time.Now())
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) {
				t.Errorf("%s: %v, want an error with %q", c.name, err, c.failure)
			}
			continue
		}
		if err != nil || a.text != "hello" || a.prompt != 40 || a.cached != c.cached || a.ttft <= 0 {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
}

func TestChatSendsWhatClientsSend(t *testing.T) {
	var body string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body = r.Method + " " + r.URL.Path + " " + string(data)
		w.Header().Set("X-Warmroute-Backend", "b")
		w.Header().Set("X-Warmroute-Reason", "no_match")
		_, _ = io.WriteString(w, role+hello+usage+done)
	}))
	defer web.Close()
	c := newClient(web.URL, 1)
	defer c.close()
	a, err := c.chat(t.Context(), []workload.Message{{Role: "user", Content: "q"}}, 7)
	if err != nil || a.backend != "b" || a.reason != "no_match" {
		t.Errorf("%+v, %v", a, err)
	}
	const want = `POST /v1/chat/completions {"model":"sim","messages":[{"role":"user","content":"q"}],"max_tokens":7,` +
		`"stream":true,"stream_options":{"include_usage":true}}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestChatErrors(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no backend"+strings.Repeat("!", 1<<20), http.StatusServiceUnavailable)
	}))
	defer web.Close()
	c := newClient(web.URL, 1)
	defer c.close()
	_, err := c.chat(t.Context(), nil, 1)
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "no backend") || len(err.Error()) > 1000 {
		t.Errorf("a 503 gives %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.chat(ctx, nil, 1); err == nil {
		t.Error("no error although the context has ended")
	}
}
