package comparison

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/replay/report"
	"github.com/warmroute/warmroute/router"
)

// command runs the command and returns what it printed.
func command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// tiny is a minute of few documents on two small engines, and more flags.
func tiny(more ...string) []string {
	return append([]string{
		"--workload", "docs", "--docs-duration", "1m", "--docs-documents", "20", "--docs-document-tokens", "1000",
		"--backends", "2", "--kv-tokens", "12000",
	}, more...)
}

// rows runs the command for its JSON.
func rows(t *testing.T, args ...string) []report.Row {
	t.Helper()
	stdout, stderr, err := command(t.Context(), append(args, "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	if stderr != "" {
		t.Errorf("stderr is no terminal, but got %q", stderr)
	}
	var rows []struct {
		report.Row
		Value any `json:"sweep_value"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.UseNumber()
	if err := decoder.Decode(&rows); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	var plain []report.Row
	for _, r := range rows {
		if number, ok := r.Value.(json.Number); ok {
			r.Row.SweepValue = report.Value(number)
		}
		plain = append(plain, r.Row)
	}
	return plain
}

func strategiesOf(rows []report.Row) []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.Strategy)
	}
	return names
}

func TestCommandJSON(t *testing.T) {
	got := rows(t, tiny("--seed", "3")...)
	if diff := cmp.Diff(defaultStrategies(), strategiesOf(got)); diff != "" {
		t.Errorf("strategies (-want +got):\n%s", diff)
	}
	for _, r := range got {
		if r.Requests != 210 || r.Errors != 0 || r.Seed != 3 || !(r.TTFTP50 > 0 && r.TTFTP50 <= r.TTFTP90 && r.TTFTP90 <= r.TTFTP99) {
			t.Errorf("%+v", r)
		}
	}
	if random, aware := got[0], got[3]; aware.HitRate < random.HitRate+0.1 {
		t.Errorf("PREFIX_AWARE hits %v, RANDOM %v", aware.HitRate, random.HitRate)
	}
	again := rows(t, tiny("--seed", "3")...)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("the same command again (-first +second):\n%s", diff)
	}
}

func TestCommandTable(t *testing.T) {
	stdout, _, err := command(t.Context(), tiny("--strategy", "prefix_aware,oracle", "--fault", "t=30s backend=1 restart",
		"--noise", "aborts=0.1", "--set", "w=3", "--routers", "2", "--state-capacity", "0", "--prefill-rate", "5000", "--request-overhead", "20ms")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"docs: questions on 20 documents of 1000 tokens, 3.5 requests/s for 1m\n",
		"210 requests a run; load × 1; 2 backends; 2 routers; they share within 50ms; profile reference; 12000 tokens of KV each; blocks of 16; 5000 prefill tokens/s; " +
			"20ms overhead a request; engines do not state their capacity; w=3; noise aborts=0.1; fault t=30s backend=1 restart; seed 1\n",
		"\nPREFIX_AWARE ", "\nORACLE ", "The best strategy by mean TTFT is PREFIX_AWARE: ",
		"PREFIX_AWARE: of 210 requests ", " died with their engine", " were left by their client",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestCommandCSV(t *testing.T) {
	stdout, _, err := command(t.Context(), tiny("-o", "csv", "--strategy", "RANDOM", "--sweep", "backends=1,2")...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(lines) != 3 || lines[0][0] != "sweep_key" || lines[2][1] != "2" {
		t.Errorf("%v in %q", err, stdout)
	}
}

// A setting acts: with a PrefixLength that ends within what all documents have in common,
// a hash tells none from another.
func TestPrefixLengthActs(t *testing.T) {
	got := rows(t, "--workload", "head", "--head-tokens", "512", "--head-own-tokens", "512", "--head-rate", "2", "--head-duration", "2m",
		"--backends", "4", "--strategy", "prefix_hash", "--sweep", "prefix_length=1024,4096")
	if len(got) != 2 || got[0].SweepKey != "prefix_length" || got[0].SweepValue != "1024" || got[1].SweepValue != "4096" {
		t.Fatalf("%+v", got)
	}
	if got[0].ShareMax != 1 || got[1].ShareMax > 0.5 {
		t.Errorf("largest share %v with 256 tokens of the head, %v with all of it and more", got[0].ShareMax, got[1].ShareMax)
	}
}

func TestCommandSweeps(t *testing.T) {
	for _, tc := range []struct {
		over string
		acts func(first, second report.Row) bool
	}{
		{"load=1,2", func(a, b report.Row) bool { return b.Requests == 2*a.Requests }},
		{"backends=1,2", func(a, b report.Row) bool { return a.ShareMin == 1 && b.ShareMin < 0.6 }},
		{"routers=1,4", func(a, b report.Row) bool { return a.HitRate > b.HitRate-0.05 && a.TTFTMean != b.TTFTMean }},
		{"kv_tokens=6000,24000", func(a, b report.Row) bool { return a.HitRate < b.HitRate }},
		{"docs-documents=5,50", func(a, b report.Row) bool { return a.HitRate > b.HitRate }},
		{"seed=1,2", func(a, b report.Row) bool { return a.Seed == 1 && b.Seed == 2 && a.TTFTMean != b.TTFTMean }},
		{"concurrency_threshold=1,1024", func(a, b report.Row) bool { return a.OverflowShare > b.OverflowShare }},
		{"on_saturation=least_loaded,reject", func(a, b report.Row) bool { return a.Errors == 0 && b.Errors == 0 }},
		{"profile=llama-8b-h100,llama-8b-l40s", func(a, b report.Row) bool { return a.TTFTP50 < b.TTFTP50 }},
	} {
		got := rows(t, tiny("--strategy", "PREFIX_AWARE", "--sweep", tc.over)...)
		if len(got) != 2 || !tc.acts(got[0], got[1]) {
			t.Errorf("--sweep %s: %+v", tc.over, got)
		}
	}
}

func TestCommandReadsATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl.gz")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 5 {
		_, _ = z.Write([]byte(`{"timestamp": 3000, "input_length": 1030, "output_length": 5, "hash_ids": [1, 2, 3]}` + "\n"))
	}
	if err := errors.Join(z.Close(), os.WriteFile(path, packed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	got := rows(t, "--trace", "mooncake:"+path, "--strategy", router.PrefixAware, "--limit", "4")
	if len(got) != 1 || got[0].Requests != 4 || got[0].HitRate < 0.5 {
		t.Errorf("%+v", got)
	}
}

func TestCommandHTML(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	stdout, _, err := command(t.Context(), tiny("--html", path, "--strategy", "RANDOM,ORACLE")...)
	if err != nil || !strings.Contains(stdout, "ORACLE") {
		t.Fatalf("%v, %q", err, stdout)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!DOCTYPE html>", "docs: questions on 20 documents", "<svg", "ORACLE"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("no %q in the page", want)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"report.html"}) {
		t.Errorf("the directory holds %v", got)
	}
}

func TestCommandInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{tiny(), {"--trace", "weka:command_test.go"}} {
		stdout, stderr, err := command(ctx, append(args, "--html", filepath.Join(dir, "report.html"))...)
		if !errors.Is(err, cli.ErrInterrupted) || stdout != "" || stderr != "" {
			t.Errorf("%v: %v, stdout %q, stderr %q", args, err, stdout, stderr)
		}
	}
	if left := names(t, dir); left != nil {
		t.Errorf("there is %v", left)
	}
}

func TestCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := file("broken.jsonl", `{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": []}`+"\n{}\n")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte("{}\n"), 1000))
	_ = z.Close()
	short := file("short.gz", packed.String()[:packed.Len()-10])
	page := filepath.Join(dir, "report.html")
	many := make([]string, 2000)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	const settings = "strategy, prefix_length, concurrency_threshold"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{nil, "there is nothing to replay: give --workload docs|chat|head, or --trace KIND:FILE"},
		{tiny("--trace", "weka:x"), "--trace and --workload exclude each other"},
		{[]string{"--workload", "dogs"}, `--workload: "dogs" is not one of docs, chat, head`},
		{[]string{"--trace", broken}, "is not KIND:FILE with KIND one of mooncake, weka, agent-text, request-log"},
		{[]string{"--trace", "docs:" + broken}, "is not KIND:FILE"},
		{[]string{"--trace", "mooncake:"}, "is not KIND:FILE"},
		{[]string{"--trace", "mooncake:absent.jsonl"}, "--trace: absent.jsonl: no such file"},
		{[]string{"--trace", "mooncake:" + broken}, "broken.jsonl: line 2: "},
		{[]string{"--trace", "weka:" + broken}, `broken.jsonl: line 1: `},
		{[]string{"--trace", "mooncake:" + short}, "short.gz: line "},
		{[]string{"--trace", "weka:" + broken, "--weka-window", "-1s"}, "--weka-window: "},
		{tiny("--weka-window", "1s"), "--weka-window: it is a flag of --trace weka:FILE, and says nothing about docs"},
		{tiny("--agent-text-users", "1"), "--agent-text-users: it is a flag of --trace agent-text:FILE"},
		{tiny("--request-log-pool", "a"), "--request-log-pool: it is a flag of --trace request-log:FILE"},
		{tiny("--chat-rate", "17"), "--chat-rate: it is a flag of --workload chat, and says nothing about docs"}, // the default
		{tiny("--sweep", "head_rate=1,2"), "--head-rate: it is a flag of --workload head"},
		{[]string{"--trace", "mooncake:" + broken, "--docs-rate", "1"}, "--docs-rate: it is a flag of --workload docs, and says nothing about mooncake"},
		{tiny("--docs-users", "3", "--docs-rate", "1"), "--docs-rate: 3 users of --docs-users ask when they got their answers"},
		{tiny("--docs-users", "3", "--sweep", "docs-rate=1,2"), "--docs-rate: 3 users"},
		{tiny("--sweep", "seed=1,\x1b[31m"), `--sweep: "\x1b[31m" has characters that cannot be printed`},
		{tiny("--set", "w=\x1b[31m"), `--set: "w=\x1b[31m" has characters`},
		{[]string{"--trace", "mooncake:\x1b[31m"}, `--trace: "\x1b[31m": no such file`},
		{[]string{"--trace", "mooncake:" + dir}, "--trace: " + dir + ": is a directory"},
		{tiny("--strategy", "FASTEST"), `--strategy: "FASTEST" is not one of RANDOM, `},
		{tiny("--strategy", "random,RANDOM"), "--strategy: RANDOM is named twice"},
		{tiny("--strategy", ""), "--strategy: name at least one of RANDOM, "},
		{tiny("--set", "w"), `--set: "w" is not KEY=VALUE, with KEY one of ` + settings},
		{tiny("--set", "weight=2"), `--set: there is no setting "weight": the settings are ` + settings},
		{tiny("--set", "w=9"), "--set: w: 9 is not in 1..4"},
		{tiny("--set", "w=heavy"), `--set: w: "heavy" is text, want a number`},
		{tiny("--set", "strategy=RANDOM"), "--set: strategy: --strategy names"},
		{tiny("--set", "on_saturation=queue"), "--set: on_saturation: requests of a replay do not wait"},
		{tiny("--set", "prompt_cache_key=ignore"), "--set: prompt_cache_key: requests of a replay have none"},
		{tiny("--set", "native_key=raw"), "--set: native_key: requests of a replay have no bodies"},
		{tiny("--sweep", "load"), "--sweep: \"load\" is not KEY=VALUE"},
		{tiny("--sweep", "load=fast"), `--sweep: load: "fast" is no value of --load`},
		{tiny("--sweep", "html=a,b"), `--sweep: "html" is neither a routing setting (` + settings},
		{tiny("--sweep", "w=1,9"), "--sweep: w: 9 is not in 1..4"},
		{tiny("--sweep", "backends=1,0"), "--backends: must be at least 1"},
		{tiny("--sweep", "seed="+strings.Join(strings.Split(strings.Repeat("1", 1700), ""), ",")), "with values that differ"},
		{tiny("--docs-rate", "-1"), "--docs-rate: must be in "},
		{tiny("--docs-zipf", "NaN"), "--docs-zipf: must be in "},
		{[]string{"--workload", "head", "--head-tokens", "-1"}, "--head-tokens: must be in "},
		{[]string{"--workload", "chat", "--chat-turns-mean", "0"}, "--chat-turns-mean: must be in "},
		{tiny("--load", "-1"), "--load: must be above 0, is -1"},
		{tiny("--load", "1e9"), "--load: must be in "},
		{tiny("--backends", "0"), "--backends: must be at least 1"},
		{tiny("--backends", "1000000"), "--backends: 1000000 are more than 256"},
		{tiny("--routers", "0"), "--routers: 0 is not in 1..64"},
		{tiny("--routers", "2", "--share-delay", "-1s"), "--share-delay: must be in 0..1.98s, is -1s"},
		{tiny("--routers", "2", "--share-delay", "2s"), "--share-delay: must be in 0..1.98s, is 2s: load that routers hear of later counts nothing"},
		{tiny("--profile", "abacus"), `--profile: "abacus" is not one of reference, llama-70b-8xh100`},
		{tiny("--kv-tokens", "-1"), "--kv-tokens: must be >= 0"},
		{tiny("--kv-tokens", "900"), "not one of 210 requests fits an engine's KV cache of 900 tokens, prompt and answer together: raise --kv-tokens"},
		{tiny("--block-size", "-1"), "--block-size: must be >= 0"},
		{tiny("--max-num-seqs", "-1"), "--max-num-seqs: must be >= 0"},
		{tiny("--prefill-rate", "-1"), "--prefill-rate: must be in "},
		{tiny("--request-overhead", "-1s"), "--request-overhead: must be >= 0"},
		{tiny("--state-capacity", "-1"), "--state-capacity: must be in 0..1e+06, is -1"},
		{tiny("--state-capacity", "NaN"), "--state-capacity: must be in 0..1e+06, is NaN"},
		{tiny("--noise", "loud"), `--noise: "loud" is neither default`},
		{tiny("--noise", "aborts=2"), "--noise: aborts: must be in 0..1"},
		{tiny("--fault", "soon"), `--fault "soon": "soon" is none of`},
		{tiny("--fault", "t=1e9s backend=1 restart"), `"1e9s" is not a time such as 90s or 1h30m`},
		{tiny("--fault", "t=1m backend=1 restart"), `--fault "t=1m0s backend=1 restart": the requests end at 1m0s: nothing comes of what happens later`},
		{tiny("--fault", "t=40s backend=1 restart", "--sweep", "docs-duration=1m,20s"), "the requests with docs-duration=20s end at 20s"},
		{tiny("--fault", "t=59s backend=1 restart", "--limit", "20"), "all requests had ended at "},
		{tiny("--fault", "t=1s backend=2 restart"), "--fault: restart of backend 2 at 1s is not one of a fleet of 2"},
		{tiny("--limit", "-1"), "--limit: -1 is negative"},
		{tiny("-o", "xml"), `--output: "xml" is not one of table, json, csv`},
		{tiny("surplus"), "surplus"},
	} {
		stdout, _, err := command(t.Context(), append(tc.args, "--html", page)...)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.says)
		}
		if _, ok := errors.AsType[*cli.UsageError](err); !ok {
			t.Errorf("%v: %v is no UsageError", tc.args, err)
		}
		if stdout != "" {
			t.Errorf("%v: printed %q", tc.args, stdout)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"broken.jsonl", "short.gz"}) {
		t.Errorf("there are %v", got)
	}
	if _, _, err := command(t.Context(), tiny("--html", dir)...); err == nil || !strings.Contains(err.Error(), "--html: "+dir+" is not a file") {
		t.Errorf("a directory as --html: %v", err)
	}
}
