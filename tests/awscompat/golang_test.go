package awscompat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	"github.com/aws/smithy-go"
)

func TestInvokeEndpoint(t *testing.T) {
	r := start(t, []string{double(t), double(t)}, "", "")
	c := r.client()
	var cached []int
	for range 2 {
		out, err := c.InvokeEndpoint(t.Context(), &sagemakerruntime.InvokeEndpointInput{
			EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"), Accept: aws.String("application/json"),
			CustomAttributes: aws.String("trace=1"), InferenceId: aws.String("i-1"), PrefixAwareId: aws.String("tenant-1"),
			TargetVariant: aws.String("AllTraffic"), Body: chat(prompt("invoke"), 8, ""),
		})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal(out.Body, &answer); err != nil || len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" {
			t.Errorf("got %s: %v", out.Body, err)
		}
		if aws.ToString(out.ContentType) != "application/json" || aws.ToString(out.InvokedProductionVariant) != "AllTraffic" {
			t.Errorf("content type %q, variant %q", aws.ToString(out.ContentType), aws.ToString(out.InvokedProductionVariant))
		}
		if id, ok := middleware.GetRequestIDMetadata(out.ResultMetadata); !ok || id == "" {
			t.Error("the SDK finds no request id")
		}
		cached = append(cached, answer.Usage.Details.Cached)
	}
	if cached[0] != 0 || cached[1] < 500 {
		t.Errorf("cached tokens %v: the second request has to find the first", cached)
	}
}

// read reads a stream to its end.
func read(ctx context.Context, c *sagemakerruntime.Client, body []byte) (parts []string, out *sagemakerruntime.InvokeEndpointWithResponseStreamOutput, err error) {
	out, err = c.InvokeEndpointWithResponseStream(ctx, &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"), Body: body,
	})
	if err != nil {
		return nil, nil, err
	}
	stream := out.GetStream()
	defer stream.Close()
	for event := range stream.Events() {
		if part, ok := event.(*types.ResponseStreamMemberPayloadPart); ok {
			parts = append(parts, string(part.Value.Bytes))
		}
	}
	return parts, out, stream.Err()
}

func TestInvokeEndpointWithResponseStream(t *testing.T) {
	r := start(t, []string{double(t), double(t)}, "", "")
	for _, more := range []string{`,"stream":true`, ""} {
		parts, out, err := read(t.Context(), r.client(), chat(prompt("stream"), 20, more))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(parts, "")
		if len(parts) < 3 || strings.Count(text, "data: {") < 3 || !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"choices":[]`) {
			t.Errorf("%d parts: %s", len(parts), text)
		}
		if aws.ToString(out.ContentType) != "text/event-stream; charset=utf-8" || aws.ToString(out.InvokedProductionVariant) != "AllTraffic" {
			t.Errorf("content type %q, variant %q", aws.ToString(out.ContentType), aws.ToString(out.InvokedProductionVariant))
		}
	}
}

// A client that reads no further frees the engine.
func TestLeavingAStream(t *testing.T) {
	left := make(chan struct{})
	r := start(t, []string{scripted(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")
		http.NewResponseController(w).Flush()
		<-req.Context().Done()
		close(left)
	})}, "", "")
	out, err := r.client().InvokeEndpointWithResponseStream(t.Context(), &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String(endpoint), Body: chat("x", 1, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-out.GetStream().Events()
	out.GetStream().Close()
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the engine works on")
	}
}

// dying sends some events and hangs up, or falls silent.
func dying(t *testing.T, silent bool) string {
	return scripted(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
			http.NewResponseController(w).Flush()
		}
		if silent {
			<-req.Context().Done()
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		conn.Close()
	})
}

// The SDK takes a connection that is cut for the end of a stream: an engine that dies has
// to be told in so many words.
func TestModelStreamError(t *testing.T) {
	for code, silent := range map[string]bool{"StreamBroken": false, "ModelInvocationTimeExceeded": true} {
		r := start(t, []string{dying(t, silent)}, "", "timeouts: {idle: 100ms}\n")
		parts, _, err := read(t.Context(), r.client(), chat("x", 1, `,"stream":true`))
		broken, ok := errors.AsType[*types.ModelStreamError](err)
		if !ok || aws.ToString(broken.ErrorCode_) != code || broken.ErrorMessage() == "" || strings.Count(strings.Join(parts, ""), "data:") != 2 {
			t.Errorf("%s: %q, then %v", code, parts, err)
		}
	}
}

// Errors have their types, and are sent again only where that may help.
func TestErrors(t *testing.T) {
	refusing := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"too long"}}`)
	})
	dead := scripted(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	large := string(chat(strings.Repeat("x", 25<<20), 1, ""))
	for _, test := range []struct {
		name     string
		url      string
		more     string
		endpoint string
		tenant   string
		body     string
		busy     bool
		check    func(error) bool
		status   int
		attempts int64
	}{
		{name: "the engine refuses", url: refusing, status: 424, attempts: 1, check: func(err error) bool {
			e, ok := errors.AsType[*types.ModelError](err)
			return ok && aws.ToInt32(e.OriginalStatusCode) == 400 && aws.ToString(e.OriginalMessage) == `{"error":{"message":"too long"}}`
		}},
		{name: "the engine dies", url: dead, status: 424, attempts: 1, check: isType[*types.ModelError]},
		{name: "nobody is there", url: "http://127.0.0.1:1", status: 503, attempts: 3, check: isType[*types.ServiceUnavailable]},
		{name: "unknown endpoint", url: refusing, endpoint: "other", status: 400, attempts: 1, check: isType[*types.ValidationError]},
		{name: "a long tenant id", url: refusing, tenant: strings.Repeat("x", 65), status: 400, attempts: 1, check: isType[*types.ValidationError]},
		{name: "a tenant id with a control character", url: refusing, tenant: "a\tb", status: 400, attempts: 1, check: isType[*types.ValidationError]},
		{name: "a large body", url: refusing, body: large, status: 413, attempts: 1, check: isType[*types.ValidationError]},
		{
			name: "saturated", url: refusing, more: "    routing: {on_saturation: reject, concurrency_threshold: 1}\n", busy: true,
			status: 429, attempts: 1, check: isType[*types.ModelNotReadyException],
		},
	} {
		r := start(t, []string{test.url}, test.more, "")
		if test.busy {
			b := r.Router().Pools()[0].Backends()[0]
			b.SetPeersInFlight(1)
			defer b.SetPeersInFlight(0)
		}
		var attempts atomic.Int64
		var status atomic.Int64
		c := r.client(func(o *sagemakerruntime.Options) {
			o.HTTPClient = counting{&attempts, &status}
		})
		body := test.body
		if body == "" {
			body = string(chat("x", 1, ""))
		}
		in := &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String(endpoint), Body: []byte(body)}
		if test.endpoint != "" {
			in.EndpointName = aws.String(test.endpoint)
		}
		if test.tenant != "" {
			in.PrefixAwareId = aws.String(test.tenant)
		}
		_, err := c.InvokeEndpoint(t.Context(), in)
		if !test.check(err) || status.Load() != int64(test.status) || attempts.Load() != test.attempts {
			t.Errorf("%s: status %d after %d attempts: %T %v", test.name, status.Load(), attempts.Load(), err, err)
		}
	}
}

func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// counting is an HTTP client that counts attempts and notes the last status.
type counting struct{ attempts, status *atomic.Int64 }

func (c counting) Do(req *http.Request) (*http.Response, error) {
	c.attempts.Add(1)
	if req.Body != nil { // errors of the router come sooner than any engine's answer: see thinking
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		c.status.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// The SDK reads an error of a stream that has not begun as any other.
func TestStreamThatDoesNotBegin(t *testing.T) {
	r := start(t, []string{scripted(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) })}, "", "")
	_, _, err := read(t.Context(), r.client(), chat("x", 1, ""))
	if e, ok := errors.AsType[*types.ModelError](err); !ok || aws.ToInt32(e.OriginalStatusCode) != http.StatusTeapot {
		t.Errorf("got %v", err)
	}
}

func TestInvokeEndpointAsync(t *testing.T) {
	r := start(t, []string{double(t)}, "", "")
	_, err := r.client().InvokeEndpointAsync(t.Context(), &sagemakerruntime.InvokeEndpointAsyncInput{
		EndpointName: aws.String(endpoint), InputLocation: aws.String("s3://bucket/key"),
	})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "ValidationError" || !strings.Contains(e.ErrorMessage(), "not supported") {
		t.Errorf("got %v", err)
	}
}

// The same chat in other spellings goes to one backend; tenants have affinities of their
// own.
func TestAffinity(t *testing.T) {
	r := start(t, []string{double(t), double(t), double(t)}, "", "")
	where := func(tenant string, body []byte) string {
		t.Helper()
		in := &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"), Body: body}
		if tenant != "" {
			in.PrefixAwareId = aws.String(tenant)
		}
		var backend string
		_, err := r.client(func(o *sagemakerruntime.Options) { o.HTTPClient = noting{&backend} }).InvokeEndpoint(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
	var together []string
	for i := range 4 {
		text := prompt(fmt.Sprint("spelling ", i))
		seen := []string{
			where("", chat(text, 4, "")),
			where("", fmt.Appendf(nil, "{ \"max_tokens\": 5,\n \"temperature\": 0.5, \"messages\": [ { \"content\": %q, \"role\": \"user\" } ] }", text)),
		}
		if together = slices.Compact(seen); len(together) != 1 {
			t.Errorf("one prompt went to %v", seen)
		}
	}
	homes := map[string]bool{}
	for i := range 12 {
		tenant := fmt.Sprint("tenant-", i)
		home := where(tenant, chat(prompt("tenants"), 4, ""))
		if again := where(tenant, chat(prompt("tenants"), 4, "")); again != home {
			t.Errorf("%s went to %s and then to %s", tenant, home, again)
		}
		homes[home] = true
	}
	if len(homes) < 2 {
		t.Errorf("twelve tenants with one prompt are all at %v", homes)
	}
}

// noting is an HTTP client that notes which backend answered.
type noting struct{ backend *string }

func (n noting) Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		*n.backend = resp.Header.Get("X-Warmroute-Backend")
	}
	return resp, err
}
