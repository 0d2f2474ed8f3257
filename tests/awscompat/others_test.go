package awscompat

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// given are the routers that the clients of other languages get.
type given struct {
	Endpoint string `json:"endpoint"`
	Works    string `json:"works"`
	Refuses  string `json:"refuses"`
	Dies     string `json:"dies"`
	Keyed    string `json:"keyed"`
}

// outcome is what they print.
type outcome struct {
	Invoked, Keyed struct {
		Variant string
		Choices int
	}
	Streamed, Broken                 streamed
	Refused, Tenant, Unknown, OpenAI failed
	Chat, Chunks                     int
}

type streamed struct{ Type, Variant, Text, Error, Code string }

type failed struct {
	Name             string
	Status, Original int
	Said             string
}

// refusal is what the engine says that refuses.
const refusal = "no such thing"

// run gives a client its routers and returns what it made of them.
func run(t *testing.T, program ...string) outcome {
	t.Helper()
	refusing := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, refusal)
	})
	text, err := json.Marshal(given{
		Endpoint: endpoint,
		Works:    start(t, []string{double(t), double(t)}, "", "").url,
		Refuses:  start(t, []string{refusing}, "", "").url,
		Dies:     start(t, []string{dying(t, false)}, "", "").url,
		Keyed:    withKeys(t).url,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program[0], append(program[1:], string(text))...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got outcome
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// check compares what AWS's clients have in common.
func (o outcome) check(t *testing.T) {
	t.Helper()
	if o.Invoked.Variant != "AllTraffic" || o.Invoked.Choices != 1 {
		t.Errorf("invoked: %+v", o.Invoked)
	}
	if o.Keyed != o.Invoked {
		t.Errorf("where the signature counts: %+v", o.Keyed)
	}
	if s := o.Streamed; s.Type != "text/event-stream; charset=utf-8" || s.Variant != "AllTraffic" || s.Error != "" || !strings.HasSuffix(s.Text, "data: [DONE]\n\n") {
		t.Errorf("streamed: %+v", s)
	}
	if b := o.Broken; b.Error != "ModelStreamError" || strings.Count(b.Text, "data:") != 2 {
		t.Errorf("an engine that dies: %+v", b)
	}
	if diff := cmp.Diff(failed{"ModelError", 424, 422, refusal}, o.Refused); diff != "" {
		t.Errorf("refused (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(failed{Name: "ValidationError", Status: 400}, o.Unknown); diff != "" {
		t.Errorf("unknown endpoint (-want +got)\n%s", diff)
	}
}

func TestJavaScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not here")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("the clients are not here: make test-javascript fetches them")
	}
	got := run(t, node, "client.mjs")
	got.check(t)
	if got.Broken.Code != "StreamBroken" {
		t.Errorf("an engine that dies: %+v", got.Broken)
	}
	if diff := cmp.Diff(failed{Name: "ValidationError", Status: 400}, got.Tenant); diff != "" {
		t.Errorf("a long tenant id (-want +got)\n%s", diff)
	}
	if got.Chat != 1 || got.Chunks != 1 || got.OpenAI.Status != 404 || !strings.Contains(got.OpenAI.Said, `the model "other" does not exist`) {
		t.Errorf("OpenAI's client: %d, %d, %+v", got.Chat, got.Chunks, got.OpenAI)
	}
}

func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here")
	}
	if exec.CommandContext(t.Context(), python, "-c", "import boto3").Run() != nil {
		t.Skip("boto3 is not here: python3 -m pip install boto3")
	}
	run(t, python, "client.py").check(t)
}

// OpenAI's client for Go, with SageMaker's base URLs.
func TestOpenAIClient(t *testing.T) {
	r := start(t, []string{double(t), double(t)}, "", "")
	c := openai.NewClient(option.WithBaseURL(r.url+"/endpoints/"+endpoint+"/openai/v1"), option.WithAPIKey("any"), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt("openai"))}, MaxCompletionTokens: openai.Int(8),
		PromptCacheKey: openai.String("tenant-1"),
	}
	var first, second *http.Response
	for _, into := range []**http.Response{&first, &second} {
		answer, err := c.Chat.Completions.New(t.Context(), params, option.WithResponseInto(into))
		if err != nil || len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" {
			t.Fatalf("got %+v, %v", answer, err)
		}
	}
	const header = "X-Warmroute-Backend"
	if home := first.Header.Get(header); home == "" || second.Header.Get(header) != home || first.Header.Get("X-Amzn-Invoked-Production-Variant") != "AllTraffic" {
		t.Errorf("one prompt went to %q and %q", home, second.Header.Get(header))
	}
	params.Model = model
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(acc.Choices) != 1 || acc.Choices[0].FinishReason != "length" {
		t.Errorf("streamed %+v, %v", acc.Choices, err)
	}
	params.Model = "other"
	_, err := c.Chat.Completions.New(t.Context(), params)
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusNotFound || e.Code != "model_not_found" || e.Response.Header.Get("X-Amzn-ErrorType") != "ValidationError" {
		t.Errorf("got %v", err)
	}
}

// A stream of plain events that breaks off is an error for OpenAI's client.
func TestOpenAIStreamThatBreaksOff(t *testing.T) {
	r := start(t, []string{dying(t, false)}, "", "")
	c := openai.NewClient(option.WithBaseURL(r.url+"/endpoints/"+endpoint+"/openai/v1"), option.WithAPIKey("any"), option.WithMaxRetries(0))
	stream := c.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")},
	})
	chunks := 0
	for stream.Next() {
		chunks++
	}
	if stream.Err() == nil || chunks != 2 {
		t.Errorf("%d chunks, then %v", chunks, stream.Err())
	}
}
