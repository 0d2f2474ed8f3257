package usage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// filter runs a filter over a stream in pieces.
func filter(pieces ...string) string {
	var f Filter
	var out []byte
	for _, p := range pieces {
		b := []byte(p)
		out = f.Push(out, b)
		if string(b) != p {
			panic("the filter changed its input")
		}
	}
	return string(f.Flush(out))
}

// UF-03: the chunk that was not asked for is gone, all else is there byte for byte.
func TestFilter(t *testing.T) {
	unasked := `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":26}}`
	for _, tt := range []struct{ name, in, out string }{
		{"stream", stream, delta + delta + done},
		{"nothing to take", delta + done, delta + done},
		{"only", unasked + "\n\n", ""},
		{"spaces", "data:{ \"choices\" : [ ] , \"usage\" : { } }\n\n" + done, done},
		{"two lines", "data: {\"choices\":[],\ndata: \"usage\":{}}\n\n" + done, done},
		{"usage null", `data: {"choices":[],"usage":null}` + "\n\n", `data: {"choices":[],"usage":null}` + "\n\n"},
		{"usage on a chunk with choices", `data: {"choices":[{"delta":{}}],"usage":{}}` + "\n\n", `data: {"choices":[{"delta":{}}],"usage":{}}` + "\n\n"},
		{"no choices at all", `data: {"usage":{}}` + "\n\n", `data: {"usage":{}}` + "\n\n"},
		{"choices not of the chunk", `data: {"x":{"choices":[]},"usage":{}}` + "\n\n", `data: {"x":{"choices":[]},"usage":{}}` + "\n\n"},
		{"in a string", `data: {"choices":[{"delta":{"content":"\"choices\":[],\"usage\":{}"}}]}` + "\n\n", `data: {"choices":[{"delta":{"content":"\"choices\":[],\"usage\":{}"}}]}` + "\n\n"},
		{"error", `data: {"choices":[],"usage":{},"error":{"m":1}}` + "\n\n", `data: {"choices":[],"usage":{},"error":{"m":1}}` + "\n\n"},
		{"not JSON", "data: \"usage\" \"choices\" []\n\n", "data: \"usage\" \"choices\" []\n\n"},
		{"incomplete JSON", `data: {"choices":[],"usage":{}` + "\n\n", `data: {"choices":[],"usage":{}` + "\n\n"},
		{"comments and fields", ": ping\n\nevent: x\nid: 7\n" + delta + "\n\n\n" + unasked + "\n\n: end\n\n", ": ping\n\nevent: x\nid: 7\n" + delta + "\n\n\n: end\n\n"},
		{"incomplete event", delta + unasked + "\n", delta + unasked + "\n"},
		{"mixed line ends", "data: a\r\n\n" + unasked + "\n\r\ndata: b\r\rdata: c\n\n", "data: a\r\n\ndata: b\r\rdata: c\n\n"},
		{"empty", "", ""},
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			if end != "\n" && strings.Contains(tt.in, "\r") {
				continue
			}
			in, want := strings.ReplaceAll(tt.in, "\n", end), strings.ReplaceAll(tt.out, "\n", end)
			if got := filter(in); got != want {
				t.Errorf("%s, line end %q: got %q, want %q", tt.name, end, got, want)
			}
			for i := range len(in) + 1 {
				if got := filter(in[:i], in[i:]); got != want {
					t.Errorf("%s, line end %q, split at %d: got %q, want %q", tt.name, end, i, got, want)
				}
			}
			if got := filter(strings.Split(in, "")...); got != want {
				t.Errorf("%s, line end %q, byte by byte: got %q, want %q", tt.name, end, got, want)
			}
		}
	}
}

// An event is forwarded with the byte that completes it, not later.
func TestFilterForwardsAtOnce(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		var f Filter
		event := strings.ReplaceAll("data: {\"choices\":[{}]}\n\n", "\n", end)
		for i := range 5 {
			first, last := event[:len(event)-len(end)], event[len(event)-len(end):]
			if got := string(f.Push(nil, []byte(first))); got != "" {
				t.Errorf("line end %q, event %d: %q before its end", end, i, got)
			}
			if got := string(f.Push(nil, []byte(last))); got != event {
				t.Errorf("line end %q, event %d: got %q, want %q", end, i, got, event)
			}
		}
	}
}

func TestFilterSaysWhetherItRemoved(t *testing.T) {
	var f Filter
	f.Push(nil, []byte(delta))
	if f.Removed() {
		t.Error("removed a delta")
	}
	f.Push(nil, []byte(usageTail))
	if !f.Removed() {
		t.Error("did not remove the usage chunk")
	}
}

// An event without end needs bounded memory and is forwarded as it comes.
func TestFilterIsBounded(t *testing.T) {
	var f Filter
	piece := bytes.Repeat([]byte("x"), 1<<20)
	total := len(f.Push(nil, []byte("data: ")))
	for range 40 {
		total += len(f.Push(nil, piece))
		if cap(f.held) > 2*maxEvent {
			t.Fatalf("%d bytes held", cap(f.held))
		}
	}
	total += len(f.Push(nil, []byte("\n\n")))
	if want := 40<<20 + len("data: \n\n"); total != want {
		t.Errorf("%d bytes forwarded of %d", total, want)
	}
	if got := string(f.Push(nil, []byte(usageTail+done))); got != done {
		t.Errorf("after the long event: %q", got)
	}
}

// whatIsLeft is the filter's rule applied by a reader of whole lines.
func whatIsLeft(s string) string {
	var out, event strings.Builder
	var data []string
	for len(s) > 0 {
		n := strings.IndexAny(s, "\r\n")
		if n < 0 {
			event.WriteString(s)
			break
		}
		end := n + 1
		if strings.HasPrefix(s[n:], "\r\n") {
			end++
		}
		event.WriteString(s[:end])
		if v, ok := strings.CutPrefix(s[:n], "data:"); ok {
			data = append(data, v)
		}
		if n == 0 {
			var chunk struct {
				Choices []any          `json:"choices"`
				Usage   map[string]any `json:"usage"`
			}
			err := json.Unmarshal([]byte(strings.Join(data, "\n")), &chunk)
			if err != nil || chunk.Choices == nil || len(chunk.Choices) > 0 || chunk.Usage == nil {
				out.WriteString(event.String())
			}
			event.Reset()
			data = nil
		}
		s = s[end:]
	}
	return out.String() + event.String()
}

func TestFilterDoesNotDependOnSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := someStream(t)
		whole, pieces := filter(s), filter(splits(t, s)...)
		if whole != pieces {
			t.Fatalf("whole %q, in pieces %q", whole, pieces)
		}
	})
}

func TestFilterTakesOnlyTheUsageChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "events") {
			s.WriteString(rapid.SampledFrom([]string{
				delta, usageTail, done, ": ping\n\n", "\n", "event: x\n" + delta, "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":1}}\n\n",
			}).Draw(t, "event"))
		}
		in := strings.ReplaceAll(s.String(), "\n", rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end"))
		if got, want := filter(splits(t, in)...), whatIsLeft(in); got != want {
			t.Fatalf("of %q\ngot  %q\nwant %q", in, got, want)
		}
	})
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{stream, strings.ReplaceAll(stream, "\n", "\r\n"), "\r\r\n\n", usageTail + usageTail, "data: {\"choices\":[],\"usage\":{}}\r\n\r"} {
		f.Add([]byte(s), uint16(9))
	}
	f.Fuzz(func(t *testing.T, p []byte, at uint16) {
		i := min(int(at), len(p))
		before := bytes.Clone(p)
		whole := filter(string(p))
		if cut := filter(string(p[:i]), string(p[i:])); cut != whole {
			t.Fatalf("whole %q, split at %d %q", whole, i, cut)
		}
		if !bytes.Contains(p, []byte(`usage"`)) && whole != string(before) {
			t.Fatalf("%q became %q", before, whole)
		}
		if !subsequence(whole, string(p)) {
			t.Fatalf("%q is not made of the bytes of %q", whole, p)
		}
	})
}

// subsequence reports whether s is what is left of all after taking bytes out.
func subsequence(s, all string) bool {
	for i := 0; i < len(all) && s != ""; i++ {
		if all[i] == s[0] {
			s = s[1:]
		}
	}
	return s == ""
}

func TestFilterDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	var f Filter
	dst, p := make([]byte, 0, 4096), []byte(delta)
	for _, cut := range []int{0, 30} {
		if n := testing.AllocsPerRun(1000, func() {
			dst = f.Push(dst[:0], p[:cut])
			dst = f.Push(dst, p[cut:])
		}); n != 0 {
			t.Errorf("%v allocations for a delta cut at %d", n, cut)
		}
	}
	if string(dst) != delta {
		t.Errorf("got %q", dst)
	}
}

// BenchmarkFilter measures what one chunk costs:
//
//	go test -run '^$' -bench Filter -benchmem ./feedback/usage
func BenchmarkFilter(b *testing.B) {
	for _, cut := range []int{0, 60} {
		b.Run(fmt.Sprintf("cut=%d", cut), func(b *testing.B) {
			var f Filter
			dst, p := make([]byte, 0, 4096), []byte(delta)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				dst = f.Push(dst[:0], p[:cut])
				dst = f.Push(dst, p[cut:])
			}
		})
	}
}
