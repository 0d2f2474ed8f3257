package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

var update = flag.Bool("update", false, "write the golden files anew")

// asked is the keys of a question about one of 31 documents behind a head of 2 KiB that all have
// in common, of 64 blocks.
func asked(i int) []kvindex.Key {
	const blocks, head = 64, 8
	document := kvindex.Key(1 + workload.Mix(uint64(i))%31)
	keys := make([]kvindex.Key, blocks)
	for j := range keys {
		if keys[j] = kvindex.Key(j + 1); j >= head {
			keys[j] += document << 10
		}
	}
	keys[blocks-1] = kvindex.Key(i<<20 + 1<<40)
	return keys
}

// arrived is when the i-th question came.
func arrived(i int) time.Time {
	return time.Unix(1_000_000, 0).UTC().Add(time.Duration(i) * time.Second)
}

// remembered are n questions.
func remembered(n int) *recent.Store {
	s := recent.New(recent.MinBytes)
	for i := range n {
		s.Add(&recent.Request{Pool: "chat", Keys: asked(i), BlockBytes: 256, StreamBytes: 64 * 256, Facts: recent.Facts{
			Arrived: arrived(i), Duration: 3 * time.Second, TTFT: 200 * time.Millisecond,
			PromptTokens: 4096, CachedTokens: 2048, OutputTokens: 100,
		}})
	}
	return s
}

// wrongly is how a pool is routed that sees no more of a prompt than the head of all.
func wrongly() router.Config {
	c := router.DefaultConfig()
	c.PrefixLength = 1024
	return c
}

// logFile is a request log of n questions.
func logFile(t *testing.T, n int) string {
	t.Helper()
	var log []byte
	prompt, cached, output := 4096, 2048, 100
	for i := range n {
		line := workload.LoggedRequest{
			Arrived: arrived(i), Pool: "chat", Strategy: router.PrefixAware, Reason: "longest_match", Backend: []string{"a:1", "b:1"}[i%2], Result: "success", Status: 200,
			TTFTSeconds: .2, DurationSeconds: 3, PromptTokens: &prompt, CachedTokens: &cached, OutputTokens: &output,
			StreamBytes: 64 * 256, BlockBytes: 256, Keys: asked(i),
		}
		var err error
		if log, err = line.AppendLine(log); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is wrong is shown with a curve, as a table, as a message and as a page.
func TestAdvise(t *testing.T) {
	c := newConsoleOf(t, wrongly(), remembered(600))
	file := filepath.Join(t.TempDir(), "advice.html")
	if err := os.WriteFile(file, bytes.Repeat([]byte("old"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.run(t.Context(), "advise", "--admin", "@", "--html", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^pool chat: 600 requests that came in 9m59s, from 1970-01-12 13:46:40 UTC on, of which 480 count; measured: hit rate 50.0 %, TTFT P90 200 ms$`,
		`^SETTING +PRESENT +ADVISED +VERDICT +WHY$`,
		`^prefix_length +1024 +\d+ +set +\d+ is the smallest that`,
		`^concurrency_threshold +128 +128 +(keep|flat) `,
		`^hit rate +\d+\.\d % +\d+\.\d % +\+\d+\.\d points \(\+\d+\.\d … \+\d+\.\d\)$`,
		`^ +1024 +\d+\.\d % +[█▉▊▋▌▍▎▏]+ +\d+ ms +█{24} .* ← now$`,
		`← advised$`,
		`^ *PREFIX_AWARE .* ← now$`,
		`^- It is advice for traffic like that`,
		`^  warmroute strategy set --prefix-length \d+$`,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(out) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>Pool chat</h2>", "default-src &#39;none&#39;", ">advised</text>", ">now</text>", "P90, prefix_length 1024: ", "What would make it wrong"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := bytes.Count(page, []byte("<figure>")); n != 10 || bytes.Contains(page, []byte("<script")) || !bytes.HasSuffix(page, []byte("</html>\n")) {
		t.Errorf("%d diagrams; ends with %q", n, page[max(len(page)-40, 0):])
	}
	out, err = c.run(t.Context(), "advise", "--admin", "@", "-o", "json")
	var message v1.GetAdviceResponse
	if err := errors.Join(err, protojson.Unmarshal([]byte(out), &message)); err != nil || message.GetAdvice().GetChange().GetPrefixLength() == 0 {
		t.Errorf("-o json: %v\n%s", err, out)
	}
}

func TestAdviseOnTooLittle(t *testing.T) {
	c := newConsoleOf(t, wrongly(), remembered(5))
	file := filepath.Join(t.TempDir(), "advice.html")
	out, err := c.run(t.Context(), "advise", "--admin", "@", "--html", file, "--apply", "--yes")
	if err != nil || !strings.Contains(out, "\nToo little to give advice: 4 requests count") || !strings.HasSuffix(out, "\nThere is nothing to set.\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if page, err := os.ReadFile(file); err != nil || !bytes.Contains(page, []byte("Too little to give advice")) {
		t.Errorf("page: %v\n%s", err, page)
	}
	if _, err := newConsole(t).run(t.Context(), "advise", "--admin", newConsole(t).url); err == nil || !strings.Contains(err.Error(), "limits.recent_requests_bytes") {
		t.Errorf("of a router that remembers nothing: %v", err)
	}
}

// What is advised is set, what comes of it is watched, and how to go back is said.
func TestAdviseApply(t *testing.T) {
	c := newConsoleOf(t, wrongly(), remembered(600))
	after := aRecord()
	after.Start, after.Usage.Cached, after.Result = time.Now().Add(time.Hour), 560, feedback.Success
	for range 3 {
		c.records <- after
	}
	out, err := c.run(t.Context(), "advise", "--admin", "@", "--apply", "--yes", "--watch", "2s")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^prefix_length +1024 +→ +\d+$`,
		`^It is set\. It lasts until the router ends`,
		`^To go back: warmroute strategy reset$`,
		`^ +REQUESTS +HIT RATE +TTFT P90$`,
		`^before +1 +91\.4 % +120 ms$`,
		`^after 500ms +3 +80\.0 % +120 ms$`,
		`^after 1s +0 +- +-$`,
		`^after 2s +0 +- +-$`,
		`^No request was answered in the last part of that time`,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(out) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	if n := c.pool.Config().PrefixLength; n <= 1024 {
		t.Errorf("prefix_length is %d", n)
	}
	out, err = c.run(t.Context(), "advise", "--admin", "@", "--apply", "--yes")
	if err != nil || !strings.HasSuffix(out, "\nThere is nothing to set.\n") {
		t.Errorf("once more: %v\n%s", err, out)
	}
}

// spareRace skips what only computes, and shares nothing that other tests do not share: the race
// detector makes a replay take twenty times as long.
func spareRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("under the race detector other tests cover this")
	}
}

// Programs get the messages only, one after the other.
func TestAdviseApplyForPrograms(t *testing.T) {
	spareRace(t)
	c := newConsoleOf(t, wrongly(), remembered(600))
	if _, err := c.run(t.Context(), "strategy", "set", "--prefix-length", "1040", "--admin", "@"); err != nil {
		t.Fatal(err)
	}
	out, err := c.run(t.Context(), "advise", "--admin", "@", "--apply", "--yes", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	var answers []map[string]any
	for decoder.More() {
		var answer map[string]any
		if err := decoder.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	if len(answers) != 2 || answers[0]["advice"] == nil || answers[1]["before"] == nil {
		t.Errorf("%d answers:\n%s", len(answers), out)
	}
}

func TestSure(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " Yes \n": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetOut(new(strings.Builder))
		a := &advising{call: &call{cmd: cmd, output: "table"}}
		if got, err := a.sure(); err != nil || got != want {
			t.Errorf("%q: %v, %v", answer, got, err)
		}
	}
}

// Going back is to the configuration, or to what was set before.
func TestBackCommand(t *testing.T) {
	before := &v1.RoutingConfig{PrefixLength: new(uint32(1024)), ConcurrencyThreshold: new(uint32(4))}
	change := &v1.RoutingConfig{PrefixLength: new(uint32(8192))}
	both := &v1.RoutingConfig{PrefixLength: new(uint32(8192)), ConcurrencyThreshold: new(uint32(64))}
	untouched := &v1.PoolRouting{Changed: &v1.RoutingConfig{}}
	touched := &v1.PoolRouting{Changed: &v1.RoutingConfig{W: new(3.0)}}
	for _, tc := range []struct{ got, want string }{
		{backCommand(untouched, before, change, ""), "warmroute strategy reset"},
		{backCommand(untouched, before, change, "chat"), "warmroute strategy reset --pool chat"},
		{backCommand(touched, before, change, ""), "warmroute strategy set --prefix-length 1024"},
		{backCommand(touched, before, both, "chat"), "warmroute strategy set --pool chat --prefix-length 1024 --concurrency-threshold 4"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s, want %s", tc.got, tc.want)
		}
	}
}

func TestJudgement(t *testing.T) {
	of := func(cached uint64, ttft time.Duration) *delivered {
		return &delivered{requests: 10, prompt: 1000, cached: cached, ttfts: []time.Duration{ttft}}
	}
	unreported := &delivered{requests: 10, ttfts: []time.Duration{time.Second}}
	for _, tc := range []struct {
		before, after *delivered
		want          string
	}{
		{of(500, time.Second), of(700, time.Second/2), "The hit rate went from 50.0 % to 70.0 %, and P90 from 1.00 s to 500 ms. Look again"},
		{of(500, time.Second), of(479, time.Second), "That is worse. It may be the traffic, or caches that still fill; if it stays, go back:\n  BACK"},
		{of(500, time.Second), of(600, 1200*time.Millisecond), "That is worse."},
		{of(500, time.Second), new(delivered), "No request was answered in the last part"},
		{new(delivered), of(500, time.Second), "nothing to compare it with"},
		{of(500, time.Second), unreported, "Not enough answers report cached tokens to compare hit rates; P90 from 1.00 s to 1.00 s. Look again"},
		{unreported, of(500, time.Second), "Not enough answers report cached tokens"},
	} {
		if got := judgement(tc.before, tc.after, "BACK"); !strings.Contains(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// A log needs no router.
func TestAdviseFromALog(t *testing.T) {
	spareRace(t)
	path := logFile(t, 600)
	out, err := newConsole(t).run(t.Context(), "advise", "--log", path, "--prefix-length", "1024", "--kv-tokens", "75000")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`^pool chat: 600 requests`, `^prefix_length +1024 +\d+ +set`, `← advised$`} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(out) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"advise --log /no/such":                             "--log: open /no/such",
		"advise --log " + empty:                             "the file holds no requests",
		"advise --pool x --log " + path:                     `holds no requests of the pool "x", only of chat`,
		"advise --apply --log " + path:                      "--apply changes a router that runs",
		"advise --admin @ --log " + path:                    "--admin names a router that runs",
		"advise --prefix-length 9 --log " + path:            "--prefix-length: 9 is not in",
		"advise --strategy BEST --log " + path:              `--strategy: "BEST"`,
		"advise --kv-tokens -1 --log " + path:               "at least 1",
		"advise --backends 3 --admin @":                     "--backends means nothing without --log",
		"advise --yes --admin @":                            "mean nothing without --apply",
		"advise --apply --admin @":                          "add --yes",
		"advise --apply --yes --watch -1s --admin @":        "--watch: -1s",
		"advise --html /no/such/directory/a.html --admin @": "--html: open",
		"advise --pool nobodys --admin @":                   `there is no pool "nobodys"`,
	} {
		_, err := newConsole(t).run(t.Context(), strings.Fields(line)...)
		if _, usage := errors.AsType[*cli.UsageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a mistake about %s", line, err, want)
		}
	}
}

// anAdvice is advice with something of each kind.
func anAdvice() *v1.Advice {
	measure := func(hits, p90, overflow float64, prefixes uint32) *v1.AdviceMeasure {
		d := func(s float64) *durationpb.Duration { return durationpb.New(time.Duration(s * float64(time.Second))) }
		return &v1.AdviceMeasure{HitRate: hits, TtftP50: d(p90 / 4), TtftP90: d(p90), OverflowShare: overflow, Skew: 1 + overflow, DistinctPrefixes: prefixes}
	}
	change := &v1.AdviceChange{HitRate: &v1.AdviceInterval{Estimate: .214, Low: .2, High: .231}, TtftP90: &v1.AdviceInterval{Estimate: -.33, Low: -.4, High: -.21}}
	return &v1.Advice{
		Pool: "chat",
		Evidence: &v1.AdviceEvidence{
			Requests: 12345, Counted: 9876, HitRate: new(.402), Reported: 1, TtftP90: durationpb.New(1234 * time.Millisecond),
			From: timestamppb.New(arrived(0)), To: timestamppb.New(arrived(3600)),
		},
		Now: measure(.41, 1.3, .2, 1), Then: measure(.624, .87, .01, 240), Expected: change,
		Change: &v1.RoutingConfig{PrefixLength: new(uint32(4096))},
		Curves: []*v1.AdviceCurve{
			{
				Setting: "prefix_length", Present: "1024", Advised: "4096", Verdict: "set", Reason: "4096 is the smallest that does", Change: change,
				Points: []*v1.AdvicePoint{
					{Value: "1024", Measure: measure(.41, 1.3, .2, 1)},
					{Value: "2048", Measure: measure(.5, 1.1, .1, 31)},
					{Value: "4096", Measure: measure(.624, .87, .01, 240)},
					{Value: "65536", Measure: measure(.626, .88, 0, 9000)},
				},
			},
			{
				Setting: "concurrency_threshold", Present: "128", Advised: "128", Verdict: "keep", Reason: "128 does as well as any",
				Points: []*v1.AdvicePoint{{Value: "4", Measure: measure(.2, 123, .9, 1)}, {Value: "128", Measure: measure(.41, 1.3, .2, 1)}},
			},
			{Setting: "strategy", Present: "PREFIX_AWARE", Advised: "PREFIX_AWARE", Points: []*v1.AdvicePoint{{Value: "PREFIX_AWARE", Measure: measure(0, 0, 0, 1)}}},
		},
		Cautions: []string{"It is advice for traffic like that of these 1h0m0s.", "The backends are not all alike."},
	}
}

func TestDrawAdvice(t *testing.T) {
	var out strings.Builder
	drawAdvice(&out, anAdvice(), "chat")
	out.WriteString("\n---\n\n")
	nothing := anAdvice()
	nothing.Change = nil
	drawAdvice(&out, nothing, "")
	golden := filepath.Join("testdata", "advice.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), out.String()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestBarsAreAsLongAsTheyShould(t *testing.T) {
	for _, tc := range []struct {
		value, most float64
		want        string
	}{{0, 1, ""}, {1, 1, strings.Repeat("█", barWidth)}, {1, 2, strings.Repeat("█", barWidth/2)}, {1, 192, "▏"}, {15, 192, "█▉"}, {1, 0, ""}} {
		if got := bar(tc.value, tc.most); got != tc.want {
			t.Errorf("%v of %v: %q, want %q", tc.value, tc.most, got, tc.want)
		}
	}
}
