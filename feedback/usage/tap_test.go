package usage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/feedback"
)

const eventStream = "text/event-stream; charset=utf-8"

// result is all that a tap says.
type result struct {
	Usage              feedback.Usage
	Started, Err, Done bool
	ID                 string
}

func results(t *Tap) result {
	return result{Usage: t.Usage(), Started: t.Started(), Err: t.Err(), Done: t.Done(), ID: t.ResponseID()}
}

// tap runs a tap over an answer in pieces.
func tap(format Format, contentType string, pieces ...string) result {
	t := NewTap(format, contentType)
	defer t.Release()
	for _, p := range pieces {
		b := []byte(p)
		t.Write(b)
		if string(b) != p {
			panic("the tap changed the bytes")
		}
	}
	t.Close()
	t.Close()
	return results(t)
}

func check(t *testing.T, what string, got, want result) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func cached(prompt, completion, cached int) feedback.Usage {
	return feedback.Usage{
		Prompt: prompt, HasPrompt: true, Completion: completion, HasCompletion: true, Cached: cached, HasCached: true,
	}
}

const (
	delta     = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a \"usage\" b"},"finish_reason":null}]}` + "\n\n"
	usageTail = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":26,"total_tokens":29,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\n"
	done      = "data: [DONE]\n\n"
	stream    = delta + delta + usageTail + done
)

// UF-09: the usage comes in a chunk without choices.
func TestStream(t *testing.T) {
	want := result{Usage: cached(26, 3, 16), Started: true, Done: true}
	check(t, "stream", tap(OpenAI, eventStream, stream), want)
	check(t, "bare", tap(OpenAI, "TEXT/Event-Stream", `data: {"choices":[],"usage":{"prompt_tokens":26,"prompt_tokens_details":{"cached_tokens":16}}}`+"\n\n"+done),
		result{Usage: feedback.Usage{Prompt: 26, HasPrompt: true, Cached: 16, HasCached: true}, Done: true})
}

// UF-01: what is not reported is not 0.
func TestUnreported(t *testing.T) {
	counts := feedback.Usage{Prompt: 10, HasPrompt: true, Completion: 2, HasCompletion: true}
	null := counts
	null.CachedNull = true
	zero := counts
	zero.HasCached = true
	for _, tt := range []struct {
		name, usage string
		want        feedback.Usage
	}{
		{"details null", `,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null}`, null},
		{"cached null", `,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}`, null},
		{"no details", `,"usage":{"prompt_tokens":10,"completion_tokens":2}`, counts},
		{"empty details", `,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{}}`, counts},
		{"other details", `,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"audio_tokens":5}}`, counts},
		{"zero", `,"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}`, zero},
		{"usage null", `,"usage":null`, feedback.Usage{}},
		{"no usage", ``, feedback.Usage{}},
	} {
		body := `{"id":"x","choices":[{"message":{"role":"assistant","content":"hi"}}]` + tt.usage + `}`
		check(t, tt.name, tap(OpenAI, "application/json", body), result{Usage: tt.want, Started: true, Done: true})
		check(t, tt.name+", streamed", tap(OpenAI, eventStream, delta, "data: "+body+"\n\n", done), result{Usage: tt.want, Started: true, Done: true})
	}
}

// UF-06: the result does not depend on where the bytes are split.
func TestEverySplit(t *testing.T) {
	crlf := strings.ReplaceAll(stream, "\n", "\r\n")
	for name, s := range map[string]string{
		"lf": stream, "crlf": crlf, "cr": strings.ReplaceAll(stream, "\n", "\r"), "bom": byteOrderMark + stream,
		"no blank line at the end": strings.TrimRight(delta+usageTail+done, "\n"),
		"two lines of data":        delta + "data: {\"choices\":[],\ndata:\"usage\":{\"prompt_tokens\":26,\"completion_tokens\":3,\r\ndata: \"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n" + done,
		"other fields":             "id: 1\nretry: 5\nevent: x\ndata\n\n:c\n" + delta + "id: 2\n" + usageTail + "foo\n" + done,
	} {
		t.Run(name, func(t *testing.T) {
			want := result{Usage: cached(26, 3, 16), Started: true, Done: true}
			for i := range len(s) + 1 {
				check(t, fmt.Sprintf("split at %d", i), tap(OpenAI, eventStream, s[:i], s[i:]), want)
			}
			check(t, "byte by byte", tap(OpenAI, eventStream, strings.Split(s, "")...), want)
		})
	}
	body := `{"a":"\"usage\":{","choices":[{"x":"\\"}],"usage":{"prompt_tokens":26,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":16}},"z":[{"usage":1}]}`
	want := result{Usage: cached(26, 3, 16), Started: true, Done: true}
	for i := range len(body) + 1 {
		check(t, fmt.Sprintf("JSON split at %d", i), tap(OpenAI, "application/json", body[:i], body[i:]), want)
	}
	check(t, "JSON byte by byte", tap(OpenAI, "application/json", strings.Split(body, "")...), want)
}

// UF-08: responses carry their usage in the event that ends them, or at the top.
func TestResponses(t *testing.T) {
	usage := `"usage":{"input_tokens":500,"input_tokens_details":{"cached_tokens":480,"cached_tokens_per_turn":[480]},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":507}`
	created := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"error\":null,\"usage\":null}}\n\n"
	word := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\",\"logprobs\":[]}\n\n"
	for _, status := range []string{"completed", "incomplete", "failed"} {
		failed := status == "failed"
		fault := "null"
		if failed {
			fault = `{"code":"server_error","message":"x"}`
		}
		response := `{"id":"resp_1","object":"response","status":"` + status + `","error":` + fault + `,"output":[{"id":"msg_1","usage":{"input_tokens":1}}],` + usage + `}`
		end := "event: response." + status + "\ndata: {\"type\":\"response." + status + "\",\"sequence_number\":9,\"response\":" + response + "}\n\n"
		want := result{Usage: cached(500, 7, 480), Started: true, Done: true, Err: failed, ID: "resp_1"}
		check(t, status+", streamed", tap(Responses, eventStream, created, word, word, end), want)
		check(t, status, tap(Responses, "application/json", response), want)
	}
	early := tap(Responses, eventStream, created, strings.Replace(created, "response.created", "response.in_progress", 2))
	check(t, "announced only", early, result{ID: "resp_1"})
	broken := tap(Responses, eventStream, created, word, "event: error\ndata: {\"type\":\"error\",\"code\":\"x\",\"message\":\"m\"}\n\n")
	check(t, "error event", broken, result{Started: true, Err: true, ID: "resp_1"})
}

// UF-10: usage in every chunk, or in a chunk with a delta, is one report.
func TestContinuousUsage(t *testing.T) {
	var s strings.Builder
	for i := range 50 {
		fmt.Fprintf(&s, `data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":500,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":480}}}`+"\n\n", i+1)
	}
	want := result{Usage: cached(500, 50, 480), Started: true, Done: true}
	check(t, "every chunk", tap(OpenAI, eventStream, s.String()+done), want)

	bare := strings.ReplaceAll(s.String(), `,"prompt_tokens_details":{"cached_tokens":480}`, "")
	last := `data: {"choices":[],"usage":{"prompt_tokens":500,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":480}}}` + "\n\n"
	check(t, "details in the last", tap(OpenAI, eventStream, bare+last+done), want)
	check(t, "details in the first", tap(OpenAI, eventStream, last+bare+done), want)
	null := strings.Replace(last, `{"cached_tokens":480}`, "null", 1)
	check(t, "null before the number", tap(OpenAI, eventStream, null+last+delta+done), want)
}

// UF-11: what cannot be true is clamped or left out, and said so.
func TestNonsense(t *testing.T) {
	for _, tt := range []struct {
		usage string
		want  feedback.Usage
	}{
		{`{"prompt_tokens":256,"prompt_tokens_details":{"cached_tokens":240}}`, feedback.Usage{Prompt: 256, HasPrompt: true, Cached: 240, HasCached: true}},
		{`{"prompt_tokens":257,"prompt_tokens_details":{"cached_tokens":256}}`, feedback.Usage{Prompt: 257, HasPrompt: true, Cached: 256, HasCached: true}},
		{`{"prompt_tokens":256,"prompt_tokens_details":{"cached_tokens":300}}`, feedback.Usage{Prompt: 256, HasPrompt: true, Cached: 256, HasCached: true, Nonsense: true}},
		{`{"prompt_tokens":256,"prompt_tokens_details":{"cached_tokens":-1}}`, feedback.Usage{Prompt: 256, HasPrompt: true, Nonsense: true}},
		{`{"prompt_tokens":256.0,"prompt_tokens_details":{"cached_tokens":12.0}}`, feedback.Usage{Prompt: 256, HasPrompt: true, Cached: 12, HasCached: true}},
		{`{"prompt_tokens":1.2e1}`, feedback.Usage{Prompt: 12, HasPrompt: true}},
		{`{"prompt_tokens":12.5}`, feedback.Usage{Nonsense: true}},
		{`{"prompt_tokens":"12"}`, feedback.Usage{Nonsense: true}},
		{`{"prompt_tokens":true,"completion_tokens":3}`, feedback.Usage{Completion: 3, HasCompletion: true, Nonsense: true}},
		{`{"prompt_tokens":1e300}`, feedback.Usage{Nonsense: true}},
		{`{"prompt_tokens":-5}`, feedback.Usage{Nonsense: true}},
		{`{"prompt_tokens":5,"prompt_tokens_details":[]}`, feedback.Usage{Prompt: 5, HasPrompt: true, Nonsense: true}},
		{`{"prompt_tokens":5,"prompt_tokens":7}`, feedback.Usage{Prompt: 7, HasPrompt: true}},
		{`[]`, feedback.Usage{Nonsense: true}},
		{`17`, feedback.Usage{Nonsense: true}},
		{`{}`, feedback.Usage{}},
		{
			`{"prompt_tokens":500,"prompt_tokens_details":{"cached_tokens":480,"local_cached_tokens":400,"external_cached_tokens":80,"created_cache_tokens":16}}`,
			feedback.Usage{Prompt: 500, HasPrompt: true, Cached: 480, HasCached: true, Local: 400, HasLocal: true},
		},
		{
			`{"prompt_tokens":500,"prompt_tokens_details":{"cached_tokens":80,"local_cached_tokens":400}}`,
			feedback.Usage{Prompt: 500, HasPrompt: true, Cached: 80, HasCached: true, Local: 80, HasLocal: true, Nonsense: true},
		},
	} {
		got := tap(OpenAI, "application/json", `{"usage":`+tt.usage+`}`)
		check(t, tt.usage, got, result{Usage: tt.want, Started: true, Done: true})
	}
}

// UF-12: Anthropic's input tokens are those that were not cached.
func TestAnthropic(t *testing.T) {
	usage := `{"input_tokens":20,"cache_read_input_tokens":480,"cache_creation_input_tokens":0,"output_tokens":%d}`
	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":" + fmt.Sprintf(usage, 0) + "}}\n\n"
	ping := "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	word := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
	stop := "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":" + fmt.Sprintf(usage, 9) + "}\n\n"
	end := "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	want := result{Usage: cached(500, 9, 480), Started: true, Done: true}
	check(t, "start and delta", tap(Anthropic, eventStream, ping, start, ping, word, word, stop, end), want)
	check(t, "delta has output only", tap(Anthropic, eventStream, start, word, strings.Replace(stop, fmt.Sprintf(usage, 9), `{"output_tokens":9}`, 1), end), want)
	check(t, "counts of vLLM: the start knows nothing of the cache",
		tap(Anthropic, eventStream, strings.Replace(start, fmt.Sprintf(usage, 0), `{"input_tokens":500,"output_tokens":0}`, 1), word, stop, end), want)
	check(t, "not streamed", tap(Anthropic, "application/json", `{"id":"msg_1","type":"message","content":[{"type":"text","text":"x"}],"usage":`+fmt.Sprintf(usage, 9)+`}`), want)
	check(t, "no cache fields", tap(Anthropic, "application/json", `{"type":"message","usage":{"input_tokens":500,"output_tokens":9}}`),
		result{Usage: feedback.Usage{Prompt: 500, HasPrompt: true, Completion: 9, HasCompletion: true}, Started: true, Done: true})
	check(t, "cache fields null", tap(Anthropic, "application/json", `{"type":"message","usage":{"input_tokens":500,"output_tokens":9,"cache_read_input_tokens":null,"cache_creation_input_tokens":null}}`),
		result{Usage: feedback.Usage{Prompt: 500, HasPrompt: true, Completion: 9, HasCompletion: true, CachedNull: true}, Started: true, Done: true})
	check(t, "created counts as prompt", tap(Anthropic, "application/json", `{"usage":{"input_tokens":20,"output_tokens":9,"cache_read_input_tokens":400,"cache_creation_input_tokens":80}}`),
		result{Usage: cached(500, 9, 400), Started: true, Done: true})
	check(t, "error", tap(Anthropic, eventStream, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"), result{Err: true})
	check(t, "cut", tap(Anthropic, eventStream, start, word), result{Usage: cached(500, 0, 480), Started: true})
}

// UF-14: errors under a status of 200.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, body string
		want                    result
	}{
		{"flat", "application/json", `{"object":"error","message":"m","type":"t","param":null,"code":404}`, result{Err: true, Started: true, Done: true}},
		{"object", "application/json", `{"error":{"message":"m","code":500}}`, result{Err: true, Started: true, Done: true}},
		{"text", "application/json", `{"error":"Unauthorized"}`, result{Err: true, Started: true, Done: true}},
		{"null is none", "application/json", `{"error":null,"choices":[]}`, result{Started: true, Done: true}},
		{"inside is none", "application/json", `{"choices":[{"error":{"x":1}}]}`, result{Started: true, Done: true}},
		{"first event", eventStream, `data: {"error":{"message":"m","type":"t","param":null,"code":500}}` + "\n\n" + done, result{Err: true, Done: true}},
		{"later event", eventStream, delta + `data: {"error":{"message":"m"}}` + "\n\n" + done, result{Err: true, Started: true, Done: true}},
		{"flat event", eventStream, delta + `data: {"object":"error","message":"m"}` + "\n\n", result{Err: true, Started: true}},
		{"named event", eventStream, delta + "event: error\ndata: oops\n\n", result{Err: true, Started: true}},
		{"an error that stays", eventStream, `data: {"error":{"message":"m"}}` + "\n\n" + delta + done, result{Err: true, Started: true, Done: true}},
		{"a token called error", eventStream, delta + `data: {"choices":[{"delta":{"content":"error"},"logprobs":{"content":[{"token":"error"}]}}]}` + "\n\n", result{Started: true}},
	} {
		check(t, tt.name, tap(OpenAI, tt.contentType, tt.body), tt.want)
	}
}

// PS-11: comments and keep-alives are not the first token.
func TestStarted(t *testing.T) {
	for _, tt := range []struct {
		events string
		want   bool
	}{
		{": ping\n\n: OPENROUTER PROCESSING\n\n", false},
		{":\n\n\n\n", false},
		{"event: x\nid: 1\n\n", false},
		{"data:\n\n", false},
		{"data: {}\n\n", false},
		{done, false},
		{`data: {"choices":[]}` + "\n\n", false},
		{`data: {"choices":[{"index":0,"delta":{},"finish_reason":null}]}` + "\n\n", false},
		{`data: {"choices":[{"index":0,"delta":{"content":""}}]}` + "\n\n", false},
		{`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", true},
		{`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n", true},
		{`data: {"choices":[{"text":"x"}]}` + "\n\n", true},
		{"data: not JSON\n\n", true},
		{"data: x\n", false}, // not yet
	} {
		tap := NewTap(OpenAI, eventStream)
		for range 3 {
			tap.Write([]byte(": ping\n\n"))
		}
		tap.Write([]byte(tt.events))
		if tap.Started() != tt.want {
			t.Errorf("%q: started = %v, want %v", tt.events, tap.Started(), tt.want)
		}
		tap.Release()
	}
	json := NewTap(OpenAI, "application/json")
	if json.Started() {
		t.Error("started before the first byte")
	}
	json.Write([]byte(" "))
	if !json.Started() {
		t.Error("not started after the first byte")
	}
	json.Release()
}

func TestContentTypes(t *testing.T) {
	body := `{"usage":{"prompt_tokens":5}}`
	five := feedback.Usage{Prompt: 5, HasPrompt: true}
	for _, tt := range []struct {
		format            Format
		contentType, body string
		want              result
	}{
		{OpenAI, "application/json", body, result{Usage: five, Started: true, Done: true}},
		{OpenAI, "Application/JSON; Charset=\"utf-8\"", body, result{Usage: five, Started: true, Done: true}},
		{OpenAI, "application/vnd.x+json", body, result{Usage: five, Started: true, Done: true}},
		{OpenAI, "application/json; ;;=", body, result{Usage: five, Started: true, Done: true}},
		{OpenAI, "", " \n" + body, result{Usage: five, Started: true, Done: true}},
		{OpenAI, "text/plain", "data: " + body + "\n\n", result{Usage: five, Started: true}},
		{OpenAI, "text/html", "<html>" + body, result{Started: true, Done: true}},
		{OpenAI, "application/json", "", result{}},
		{OpenAI, "application/json", body[:20], result{Started: true}},
		{OpenAI, "application/json", "[" + body + "]", result{Started: true, Done: true}},
		{OpenAI, "application/json", `"usage"`, result{Started: true}},
		{OpenAI, "application/json", body + " junk", result{Usage: five, Started: true, Done: true}},
		{None, "application/json", body, result{Started: true, Done: true}},
		{None, eventStream, stream, result{Started: true, Done: true}},
	} {
		check(t, tt.contentType+" "+tt.body, tap(tt.format, tt.contentType, tt.body), tt.want)
	}
}

// llama.cpp says in its timings what its usage may leave out.
func TestTimings(t *testing.T) {
	timings := `"timings":{"cache_n":480,"prompt_n":20,"prompt_ms":1.5,"predicted_n":7}`
	want := result{Usage: cached(500, 7, 480), Started: true, Done: true}
	check(t, "alone", tap(OpenAI, "application/json", `{"choices":[{}],`+timings+`}`), want)
	check(t, "beside usage", tap(OpenAI, "application/json", `{"choices":[{}],"usage":{"prompt_tokens":500,"completion_tokens":7},`+timings+`}`), want)
	check(t, "streamed", tap(OpenAI, eventStream, delta, `data: {"choices":[],`+timings+`}`+"\n\n", done), want)
	exact := strings.Replace(timings, "480", "1", 1)
	check(t, "usage wins", tap(OpenAI, "application/json", `{"usage":{"prompt_tokens":500,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":480}},`+exact+`}`), want)
}

// Large events and answers are read without being kept.
func TestLarge(t *testing.T) {
	long := strings.Repeat(`long \"text\" \\ `, 20_000)
	usage := `"usage":{"prompt_tokens":26,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":16}}`
	for _, body := range []string{
		`{"id":"resp_1","choices":[{"text":"` + long + `"}],` + usage + `}`,
		`{` + usage + `,"choices":[{"text":"` + long + `","logprobs":[[[["` + long + `"]]]]}]}`,
	} {
		want := result{Usage: cached(26, 3, 16), Started: true, Done: true}
		check(t, "JSON", tap(OpenAI, "application/json", chunks(body, 4096)...), want)
		check(t, "event", tap(OpenAI, eventStream, append(chunks("data: "+body+"\n\n", 4096), done)...), want)
	}
	tap := NewTap(OpenAI, eventStream)
	for _, p := range chunks("data: {\"x\":\""+strings.Repeat(long, 20), 4096) {
		tap.Write([]byte(p))
	}
	if n := cap(tap.event.data); n > 2*spill {
		t.Errorf("an event of 6 MB takes %d bytes", n)
	}
	tap.Release()
}

func chunks(s string, n int) []string {
	var out []string
	for p := range slices.Chunk([]byte(s), n) {
		out = append(out, string(p))
	}
	return out
}

func TestReleaseForgetsEverything(t *testing.T) {
	for range 10 {
		tap(Responses, eventStream, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":5}}}\n\n", "event: x\ndata: {\"")
		tap(Anthropic, "application/json", `{"error":{"x":1`)
		check(t, "after others", tap(OpenAI, eventStream), result{})
		check(t, "after others", tap(Responses, "application/json", `{}`), result{Started: true, Done: true})
	}
}

// splits cuts s at random places.
func splits(t *rapid.T, s string) []string {
	var out []string
	for len(s) > 0 {
		n := rapid.IntRange(1, min(len(s), rapid.SampledFrom([]int{1, 3, 40, 1 << 20}).Draw(t, "size"))).Draw(t, "n")
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// someStream draws an event stream, sound or broken.
func someStream(t *rapid.T) string {
	end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
	line := rapid.SampledFrom([]string{
		"data: " + `{"choices":[],"usage":{"prompt_tokens":26,"prompt_tokens_details":{"cached_tokens":16}}}`,
		"data:" + `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":26}}`,
		"data: " + `{"choices":[{"delta":{"content":"\"usage\""}}]}`,
		`data: {"choices":[],`, `data: "usage":{"prompt_tokens":7}}`, `data: {"error":{"m":1}}`,
		`data: {"type":"response.completed","response":{"id":"r1","usage":{"input_tokens":9}}}`,
		`data: {"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":4}}}`,
		"data: [DONE]", "data", "data:", ": ping", "event: error", "event: ping", "id: 3", "nonsense", "", "", "", "data: {", `data: "`, "\xEF\xBB\xBF",
	})
	var s strings.Builder
	for range rapid.IntRange(0, 12).Draw(t, "lines") {
		s.WriteString(line.Draw(t, "line"))
		s.WriteString(end.Draw(t, "end"))
	}
	if rapid.Bool().Draw(t, "cut") && s.Len() > 0 {
		return s.String()[:rapid.IntRange(0, s.Len()-1).Draw(t, "at")]
	}
	return s.String()
}

func TestTapDoesNotDependOnSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]Format{OpenAI, Responses, Anthropic}).Draw(t, "format")
		contentType := rapid.SampledFrom([]string{eventStream, "application/json"}).Draw(t, "type")
		s := someStream(t)
		whole, pieces := tap(format, contentType, s), tap(format, contentType, splits(t, s)...)
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Fatalf("whole and in pieces (-whole +pieces):\n%s", diff)
		}
	})
}

func FuzzTap(f *testing.F) {
	for _, s := range []string{stream, strings.ReplaceAll(stream, "\n", "\r\n"), "event: error\ndata: x\n\n", `{"usage":{"prompt_tokens":5}}`, `{"response":{"usage":{}},"error":"\`} {
		f.Add([]byte(s), uint8(1), uint16(7))
	}
	f.Fuzz(func(t *testing.T, p []byte, format uint8, at uint16) {
		contentType := eventStream
		if format&4 != 0 {
			contentType = "application/json"
		}
		kind := Format(format % 4)
		before := bytes.Clone(p)
		whole := NewTap(kind, contentType)
		whole.Write(p)
		whole.Close()
		cut := NewTap(kind, contentType)
		i := min(int(at), len(p))
		cut.Write(p[:i])
		cut.Write(p[i:])
		cut.Close()
		if !bytes.Equal(before, p) {
			t.Fatal("the tap changed the bytes")
		}
		a, b := results(whole), results(cut)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("whole and split at %d (-whole +split):\n%s", i, diff)
		}
		if u := a.Usage; u.Prompt < 0 || u.Completion < 0 || u.Cached < 0 || u.HasPrompt && u.Cached > u.Prompt {
			t.Fatalf("impossible usage %+v", u)
		}
		whole.Release()
		cut.Release()
	})
}

func TestOrdinaryDeltasDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	for _, tt := range []struct {
		format Format
		chunk  string
	}{
		{OpenAI, delta},
		{Responses, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"},
		{Anthropic, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}\n\n"},
		{OpenAI, `data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":500,"completion_tokens":5}}` + "\n\n"},
	} {
		tap := NewTap(tt.format, eventStream)
		p := []byte(tt.chunk)
		tap.Write(p)
		if n := testing.AllocsPerRun(1000, func() { tap.Write(p) }); n != 0 {
			t.Errorf("%v allocations for %s", n, tt.chunk)
		}
		if n := testing.AllocsPerRun(1000, func() { tap.Write(p[:30]); tap.Write(p[30:]) }); n != 0 {
			t.Errorf("%v allocations in two pieces for %s", n, tt.chunk)
		}
		tap.Release()
	}
}

// BenchmarkTap measures what one chunk costs:
//
//	go test -run '^$' -bench Tap -benchmem ./feedback/usage
func BenchmarkTap(b *testing.B) {
	large := `{"choices":[{"text":"` + strings.Repeat("text with \\n escapes ", 1500) + `"}],"usage":{"prompt_tokens":5}}`
	for _, bb := range []struct{ name, contentType, chunk string }{
		{"delta", eventStream, delta},
		{"usage", eventStream, usageTail},
		{"json-32KiB", "application/json", large},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := []byte(bb.chunk)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			tap := NewTap(OpenAI, bb.contentType)
			for b.Loop() {
				if bb.contentType != eventStream {
					tap.Release()
					tap = NewTap(OpenAI, bb.contentType)
				}
				tap.Write(p)
			}
			tap.Release()
		})
	}
}

// Events count from the one on that begins the answer, however the bytes come.
func TestEvents(t *testing.T) {
	text := `data: {"choices":[{"index":0,"delta":{"content":""}}]}` + "\n\n: ping\n\n" +
		strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\n", 5) + done
	for _, size := range []int{1, 7, len(text)} {
		tap := NewTap(OpenAI, "text/event-stream")
		for part := range slices.Chunk([]byte(text), size) {
			tap.Write(part)
		}
		tap.Close()
		if n := tap.Events(); n != 5 {
			t.Errorf("%d events in parts of %d bytes, want 5", n, size)
		}
		tap.Release()
	}
}

func TestUnfinished(t *testing.T) {
	chunk := func(reason string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":"a \"finish_reason\": null"},"finish_reason":` + reason + "}]}\n\n"
	}
	for _, test := range []struct {
		name   string
		format Format
		text   string
		want   bool
	}{
		{"nothing", OpenAI, "", false},
		{"a comment", OpenAI, ": ping\n\n", false},
		{"more follows", OpenAI, chunk("null"), true},
		{"more follows, written otherwise", OpenAI, chunk("  null "), true},
		{"a reason", OpenAI, chunk("null") + chunk(`"stop"`), false},
		{"a reason, then usage", OpenAI, chunk("null") + chunk(` "length"`) + usageTail, false},
		{"whole", OpenAI, chunk("null") + "data: [DONE]\n\n", false},
		{"an error", OpenAI, chunk("null") + `data: {"error":{"message":"no"}}` + "\n\n", false},
		{"no reasons", OpenAI, `data: {"token":{"text":"a"}}` + "\n\n", false},
		{"cut in an event", OpenAI, chunk("null") + `data: {"choices":[{"index":0,"delta":{`, true},
		{"a very large chunk", OpenAI, chunk("null") + `data: {"pad":"` + strings.Repeat("a", 2*spill) + `"}` + "\n\n", true},
		{"a response", Responses, `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n", true},
		{"one announced only", Responses, `data: {"type":"response.created"}` + "\n\n", false},
		{"a whole response", Responses, `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n" + `data: {"type":"response.completed","response":{"id":"r"}}` + "\n\n", false},
		{"a message", Anthropic, `data: {"type":"content_block_delta"}` + "\n\n", true},
		{"a whole message", Anthropic, `data: {"type":"content_block_delta"}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n", false},
	} {
		tap := NewTap(test.format, eventStream)
		for piece := range slices.Chunk([]byte(test.text), 7) {
			tap.Write(piece)
		}
		tap.Close()
		if got := tap.Unfinished(); got != test.want {
			t.Errorf("%s: unfinished %v, want %v", test.name, got, test.want)
		}
		tap.Release()
		if again := NewTap(test.format, eventStream); again.Unfinished() {
			t.Errorf("%s: a released tap remembers", test.name)
		}
	}
	document := NewTap(OpenAI, "application/json")
	document.Write([]byte(`{"choices":[{"finish_reason":null}]`))
	document.Close()
	if document.Unfinished() {
		t.Error("what is no stream has no last event")
	}
}

// What an error says of its status decides whether its engine is at fault.
func TestErrStatus(t *testing.T) {
	for _, test := range []struct {
		format Format
		kind   string
		text   string
		want   int
	}{
		{OpenAI, eventStream, delta, 0},
		{OpenAI, eventStream, delta + `data: {"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}` + "\n\n" + "data: [DONE]\n\n", 500},
		{OpenAI, eventStream, `data: {"error":{"message":"x","type":"BadRequestError","code":400}}` + "\n\n", 400},
		{OpenAI, eventStream, `data: {"error":{"message":"x","code":"503"}}` + "\n\n", 503},
		{OpenAI, eventStream, `data: {"error":{"message":"x","type":"server_error","code":"no_gpu"}}` + "\n\n", 500},
		{OpenAI, eventStream, `data: {"error":{"message":"x"}}` + "\n\n", 0},
		{OpenAI, eventStream, `data: {"error":{"message":"x","code":7}}` + "\n\n", 0},
		{OpenAI, eventStream, `data: {"error":"no memory"}` + "\n\n", 0},
		{OpenAI, eventStream, `data: {"error":{"code":500},"error":{"code":404}}` + "\n\n", 404},
		{OpenAI, eventStream, `data: {"error":{"code":500}}` + "\n\n" + `data: {"error":{"code":404}}` + "\n\n", 500},
		{OpenAI, eventStream, `data: {"error":{"message":"` + strings.Repeat("x", 8<<10) + `","code":500}}` + "\n\n", 0},
		{OpenAI, "application/json", `{"object":"error","code":404,"message":"x"}`, 404},
		{OpenAI, "application/json", `{"error":{"message":"x","type":"Bad Request"}}`, 400},
		{Responses, eventStream, `data: {"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"x"}}}` + "\n\n", 500},
		{Responses, eventStream, `data: {"type":"response.failed","response":{"id":"r","error":{"code":"invalid_prompt"}}}` + "\n\n", 400},
		{Anthropic, eventStream, "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"x"}}` + "\n\n", 500},
		{Anthropic, eventStream, "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error"}}` + "\n\n", 529},
	} {
		tap := NewTap(test.format, test.kind)
		for piece := range slices.Chunk([]byte(test.text), 7) {
			tap.Write(piece)
		}
		tap.Close()
		if got := tap.ErrStatus(); got != test.want {
			t.Errorf("%.200s: status %d, want %d", test.text, got, test.want)
		}
		tap.Release()
		if again := NewTap(test.format, test.kind); again.ErrStatus() != 0 {
			t.Errorf("%.200s: a released tap remembers", test.text)
		}
	}
}
