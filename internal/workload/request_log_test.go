package workload_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
)

func TestReadRequestLog(t *testing.T) {
	type sent struct {
		At      time.Duration
		Lengths []int
		Output  int
	}
	requests := play(t, open(t, workload.KindRequestLog, workload.Options{}), 1, 0)
	got := make([]sent, 0, len(requests))
	for _, r := range requests {
		got = append(got, sent{r.At, lengths(r.Prompt), r.OutputTokens})
	}
	want := []sent{
		{0, []int{64, 64, 64, 64, 14}, 40}, // 270 tokens, evenly over 1,080 bytes
		// Three blocks are known: 138 tokens are left for 532 bytes.
		{2499999999, []int{64, 64, 64, 66, 66, 6}, 20},
		// Nothing is reported: 100 and 1,080 bytes at 3.97 a token, the mean answer.
		{3999999999, []int{25}, 30},
		{4999999999, []int{64, 64, 64, 64, 16}, 30},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := common(requests[0].Prompt, requests[1].Prompt); n != 192 {
		t.Errorf("three blocks in common are %d tokens, want 192", n)
	}
	if n := common(requests[0].Prompt, requests[3].Prompt); n != 256 {
		t.Errorf("four blocks in common are %d tokens, want 256", n)
	}
}

func TestReadRequestLogOfPools(t *testing.T) {
	for _, c := range []struct {
		pools []string
		want  int
	}{{nil, 4}, {[]string{"chat"}, 3}, {[]string{"other"}, 1}, {[]string{"other", "chat"}, 4}} {
		w := open(t, workload.KindRequestLog, workload.Options{Pools: c.pools})
		requests := play(t, w, 1, 0)
		if len(requests) != c.want || w.Requests != c.want || requests[0].At != 0 {
			t.Errorf("pools %q: %d requests from %v on, promised %d, want %d", c.pools, len(requests), requests[0].At, w.Requests, c.want)
		}
	}
	_, err := workload.ReadRequestLog(bytes.NewReader(fixture(t, workload.KindRequestLog)), 1, "nobody's")
	if want := `the file holds no requests of the pools ["nobody's"], only of ["chat" "other"]`; err == nil || err.Error() != want {
		t.Errorf("a pool without requests: %v", err)
	}
}

func TestLoggedRequestRoundTrip(t *testing.T) {
	prompt, cached := 330, 0
	want := workload.LoggedRequest{
		Arrived: time.Date(2026, 11, 29, 12, 0, 2, 123456789, time.UTC),
		Pool:    "chat", Strategy: "PREFIX_AWARE", Reason: "no_match", Backend: "a:8000", Result: "success", Status: 200,
		TTFTSeconds: 0.25, DurationSeconds: 1.5,
		PromptTokens: &prompt, CachedTokens: &cached,
		StreamBytes: 600, BlockBytes: 256, Keys: []kvindex.Key{1, 1<<64 - 1},
	}
	line, err := want.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"arrived":"2026-11-29T12:00:02.123456789Z","pool":"chat","strategy":"PREFIX_AWARE","reason":"no_match",` +
		`"backend":"a:8000","result":"success","status":200,"ttft_seconds":0.25,"duration_seconds":1.5,"prompt_tokens":330,` +
		`"cached_tokens":0,"stream_bytes":600,"block_bytes":256,"keys":"AQAAAAAAAAD//////////w=="}` + "\n"
	if diff := cmp.Diff(text, string(line)); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	got, err := workload.ParseLoggedRequest(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// The manual names every field.
func TestLoggedRequestIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "request-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[workload.LoggedRequest]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/request-log.md does not name `%s`", name)
		}
	}
}

// A prompt without a block, and nothing reported.
func TestLoggedRequestLeastLine(t *testing.T) {
	r := workload.LoggedRequest{Arrived: time.Unix(1, 0).UTC(), Pool: "p", BlockBytes: 256}
	line, err := r.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"arrived":"1970-01-01T00:00:01Z","pool":"p","result":"","status":0,"duration_seconds":0,"stream_bytes":0,"block_bytes":256,"keys":""}` + "\n"
	if diff := cmp.Diff(text, string(line)); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	w, err := workload.ReadRequestLog(bytes.NewReader(line), 1)
	if err != nil {
		t.Fatal(err)
	}
	requests := play(t, w, 1, 0)
	if diff := cmp.Diff([]int{1}, lengths(requests[0].Prompt)); diff != "" || requests[0].OutputTokens != 1 {
		t.Errorf("output %d, prompt (-want +got):\n%s", requests[0].OutputTokens, diff)
	}
}

// TestRequestLogKeepsContent: prompts have in common exactly the tokens of the blocks they
// begin with, have all their tokens, and blocks are never empty.
func TestRequestLogKeepsContent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var log []byte
		var chains [][]kvindex.Key
		var tokens []int
		n := rapid.IntRange(1, 8).Draw(rt, "requests")
		for i := range n {
			var keys []kvindex.Key
			if i > 0 {
				from := chains[rapid.IntRange(0, i-1).Draw(rt, "from")]
				keys = append(keys, from[:rapid.IntRange(0, len(from)).Draw(rt, "kept")]...)
			}
			for range rapid.IntRange(0, 4).Draw(rt, "more") {
				keys = append(keys, kvindex.Key(1000*i+len(keys)))
			}
			prompt := rapid.IntRange(0, 600).Draw(rt, "tokens")
			r := workload.LoggedRequest{
				Arrived: time.Unix(int64(i), 0).UTC(), Pool: "p", PromptTokens: &prompt,
				StreamBytes: 256*len(keys) + rapid.IntRange(0, 255).Draw(rt, "tail"), BlockBytes: 256, Keys: keys,
			}
			line, err := r.AppendLine(nil)
			if err != nil {
				rt.Fatal(err)
			}
			log, chains, tokens = append(log, line...), append(chains, keys), append(tokens, prompt)
		}
		w, err := workload.ReadRequestLog(bytes.NewReader(log), 1)
		if err != nil {
			rt.Fatal(err)
		}
		requests := play(t, w, 1, 0)
		for i, a := range requests {
			if got := workload.Tokens(a.Prompt); got < tokens[i] || got > max(tokens[i], 1, workload.Tokens(a.Prompt[:len(chains[i])])) {
				rt.Fatalf("a prompt of %d tokens in %d blocks has %d", tokens[i], len(chains[i]), got)
			}
			for j, b := range requests[:i] {
				same := 0
				for same < min(len(chains[i]), len(chains[j])) && chains[i][same] == chains[j][same] {
					same++
				}
				if got, want := common(a.Prompt, b.Prompt), workload.Tokens(a.Prompt[:same]); got != want {
					rt.Fatalf("%d blocks in common are %d tokens, want %d", same, got, want)
				}
			}
		}
	})
}

func TestReadRequestLogNamesTheLine(t *testing.T) {
	const good = `{"arrived":"2026-11-29T12:00:00Z","pool":"p","stream_bytes":512,"block_bytes":256,"keys":"CwAAAAAAAAAMAAAAAAAAAA=="}` + "\n"
	change := func(old, by string) string { return strings.Replace(good, old, by, 1) }
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"cut short", good + good[:50], 2, "not a request of a request log"},
		{"no time", change("arrived", "arrive"), 1, `"arrived" is missing`},
		{"bad time", change("12:00", "25:00"), 1, "not a request of a request log"},
		{"time before all", change("2026", "1969"), 1, `"arrived": 1969-11-29`},
		{"a year later", good + change("2026", "2028"), 2, `"arrived": 2028-11-29 12:00:00 +0000 UTC is more than a year from a line before`},
		{"a year earlier", good + change("2026", "2024"), 2, "more than a year"},
		{"no pool", change(`"p"`, `""`), 1, `"pool" is missing`},
		{"no keys", change("keys", "kees"), 1, `"keys" is missing`},
		{"null keys", change(`"CwAAAAAAAAAMAAAAAAAAAA=="`, "null"), 1, `"keys" is missing`},
		{"no base64", change("Cw", "??"), 1, "block keys: illegal base64"},
		{"half a key", change("CwAAAAAAAAAMAAAAAAAAAA==", "CwAAAA=="), 1, "block keys: 4 bytes are not a number of keys of 8"},
		{"no block size", change("block_bytes", "block"), 1, `"block_bytes": 0 is not in 1..`},
		{"negative stream", change("512", "-1"), 1, `"stream_bytes": -1 is not in 0..`},
		{"more keys than bytes", change("512", "511"), 1, `"keys": 2 blocks of 256 bytes are more than "stream_bytes", 511`},
		{"negative prompt", change(`"stream`, `"prompt_tokens":-3,"stream`), 1, `"prompt_tokens": -3 tokens`},
		{"absurd prompt", change(`"stream`, `"prompt_tokens":1000000000,"stream`), 1, `"prompt_tokens": 1000000000 tokens`},
		{"absurd cached", change(`"stream`, `"cached_tokens":1000000000,"stream`), 1, `"cached_tokens": 1000000000 tokens`},
		{"absurd output", change(`"stream`, `"output_tokens":-1,"stream`), 1, `"output_tokens": -1 tokens`},
		{"a key elsewhere", good + change("CwAAAAAAAAAMAAAAAAAAAA==", "DAAAAAAAAAA="), 2, `"keys": that of block 1 follows another block on a line before`},
	} {
		_, err := workload.ReadRequestLog(strings.NewReader(c.text), 1)
		line, ok := errors.AsType[*workload.LineError](err)
		if !ok || line.Line != c.line || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want line %d and %q", c.name, err, c.line, c.says)
		}
	}
}
