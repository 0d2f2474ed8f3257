package ops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// console is a router that runs, and a shell in front of it.
type console struct {
	t       *testing.T
	pool    *router.Pool
	service *rpc.Service
	admin   *rpc.Admin
	url     string
	records chan feedback.Record
}

// newConsole starts a router that remembers nothing.
func newConsole(t *testing.T) *console {
	t.Helper()
	return newConsoleOf(t, router.DefaultConfig(), nil)
}

func newConsoleOf(t *testing.T, config router.Config, requests *recent.Store, change ...func(*rpc.AdminOptions)) *console {
	t.Helper()
	r := router.New(router.Options{Seed: 1, Epoch: time.Now()})
	pool, err := r.AddPool(router.PoolSpec{
		Name: "chat", Models: []router.ModelSpec{{Name: "m"}}, Config: config, Ejection: backends.DefaultEjection(),
		Backends: []backends.Spec{{URL: "http://gpu-1:8000", Rank: backends.NoRank}, {URL: "http://gpu-2:8000", Rank: backends.NoRank, Weight: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, pool: pool, records: make(chan feedback.Record, 8)}
	c.service, err = rpc.New(rpc.Options{Router: r, Bodies: intake.NewBudget(1 << 30), Calls: openai.Calls()})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range pool.Backends() {
		r.Scraped(pool, b, feedback.EngineState{At: time.Now(), Engine: "vllm", CapacityTokens: 75_000, BlockTokens: 16})
	}
	options := rpc.AdminOptions{
		Router:   r,
		Requests: requests,
		Hits: func(pool string) *v1.PoolHits {
			hits := &v1.Hits{PromptTokens: 1000, ReportedPromptTokens: 800, DeliveredTokens: 600, LostToNoReuseTokens: 200, UnreportedTokens: 200}
			return &v1.PoolHits{Pool: pool, Total: hits, Backends: []*v1.BackendHits{{Backend: "gpu-1:8000", Hits: hits}}}
		},
		Recent: func(int) []feedback.Record { return []feedback.Record{aRecord()} },
		Follow: func() (<-chan feedback.Record, func() uint64, func()) {
			return c.records, func() uint64 { return 4 }, func() {}
		},
	}
	for _, f := range change {
		f(&options)
	}
	c.admin, err = rpc.NewAdmin(options)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.service.Register(mux)
	c.admin.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		c.service.Close()
		server.CloseClientConnections()
		server.Close()
		c.admin.Close()
	})
	c.url = server.URL
	return c
}

func aRecord() feedback.Record {
	return feedback.Record{
		DecisionID: "0123456789abcdef", Start: time.Now(), Pool: "chat", Backend: "gpu-2:8000", Reason: "longest_match",
		TTFT: 120 * time.Millisecond, Duration: time.Second, PredictedCached: 512, Usage: feedback.Usage{Prompt: 700, HasPrompt: true, Cached: 640, HasCached: true},
	}
}

// run types a command and returns what it prints. @ stands for the router's URL.
func (c *console) run(ctx context.Context, line ...string) (string, error) {
	c.t.Helper()
	root := &cobra.Command{Use: "warmroute", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands()...)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], "@", c.url)
	}
	root.SetArgs(line)
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// body writes a request body of a few blocks into a file.
func body(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body.json")
	text := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("the quick brown fox ", 60) + `"}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Every command prints a table for people and a message for programs.
func TestCommands(t *testing.T) {
	file := body(t)
	for _, tc := range []struct {
		line string
		want []string // regular expressions of lines
	}{
		{"status --admin @", []string{`^BACKEND +STATE +IN FLIGHT +QUEUED +WEIGHT +MODELS$`, `^gpu-1:8000 +up +0/128 +0 +1 +-$`, `^gpu-2:8000 .* 2 `}},
		{"backends ls --pool chat --admin @", []string{`gpu-1:8000 +up`}},
		{"backends drain gpu-1:8000 --admin @", []string{`^gpu-1:8000 drains, 0 in flight$`}},
		{"backends undrain gpu-1:8000 --admin @", []string{`^gpu-1:8000 takes requests$`}},
		{"backends add http://gpu-3:8000 --rank 1 --lease 1m --concurrency-threshold 9 --admin @", []string{`^gpu-3:8000#1 is registered until `}},
		{"explain --file " + file + " --router @", []string{`^m → gpu-`, `^pool chat, PREFIX_AWARE, prompt of about \d+ tokens, 4 blocks$`, `^1 +gpu-\d:8000 +0 +0 +0 +0/128 +\d+ +no_match$`, `^2 +gpu.* last one left$`}},
		{"hits --admin @", []string{`^POOL +HIT RATE`, `^chat +75.0 % +1000 .* 600$`}},
		{"hits --by backend --admin @", []string{`^gpu-1:8000 +75.0 %`, `^since .* ago$`}},
		{"hits --by cause --admin @", []string{`^ +200 +20.0 % +no reuse`, `^ +0 +0.0 % +overflow`}},
		{"tuning --admin @", []string{`^pool chat: automatic mode is off$`, `^ +automatic: true$`}},
		{"strategy get --admin @", []string{`^strategy +PREFIX_AWARE +configuration$`, `^prefix_length +default +`, `^w +2 +`}},
		{"strategy set RANDOM --prefix-length 2048 --w 3 --admin @", []string{`^strategy +PREFIX_AWARE +RANDOM$`, `^prefix_length +default +2048$`, `^w +2 +3$`, `^This lasts until the router ends`}},
		{"strategy reset --pool chat --admin @", []string{`^strategy +PREFIX_AWARE +PREFIX_AWARE$`}},
		{"decisions --admin @", []string{`^[0-9:]+ +gpu-2:8000 +longest_match +success +120ms +1s +512 +640/700$`}},
		{"index stats --admin @", []string{`^BACKEND +BLOCKS +CAPACITY +FULL +EVICTED$`, `^gpu-1:8000 +0 +\d+ +0.0 % +0$`}},
		{"hits --since 10m --admin @", []string{`^chat +75.0 %`}},
	} {
		t.Run(tc.line[:min(len(tc.line), 24)], func(t *testing.T) {
			c := newConsole(t)
			out, err := c.run(t.Context(), strings.Fields(tc.line)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !regexp.MustCompile(`(?m)` + want).MatchString(out) {
					t.Errorf("no line %s in\n%s", want, out)
				}
			}
			out, err = newConsole(t).run(t.Context(), append(strings.Fields(strings.ReplaceAll(tc.line, "@", newConsole(t).url)), "-o", "json")...)
			if err != nil || !json.Valid([]byte(out)) {
				t.Errorf("-o json: %v\n%s", err, out)
			}
		})
	}
}

// What was registered can be removed, and is not there any more.
func TestRemove(t *testing.T) {
	c := newConsole(t)
	for _, line := range []string{"backends add http://gpu-3:8000 --admin @", "backends rm gpu-3:8000 --admin @"} {
		if _, err := c.run(t.Context(), strings.Fields(line)...); err != nil {
			t.Error(err)
		}
	}
	if n := len(c.pool.Backends()); n != 2 {
		t.Errorf("%d backends", n)
	}
}

// Mistakes of who types are told apart from failures, and name what is at fault.
func TestMistakes(t *testing.T) {
	c := newConsole(t)
	for line, want := range map[string]string{
		"status -o yaml --admin @":                         `--output: "yaml"`,
		"hits --by day --admin @":                          `--by: "day"`,
		"tuning --pool code --admin @":                     `there is no pool "code"`,
		"strategy set BEST --admin @":                      `strategy: "BEST"`,
		"strategy set A B --admin @":                       "takes one argument",
		"strategy set --pool chat":                         "nothing is to change",
		"strategy put":                                     `unknown command "put"`,
		"backends drain --admin @":                         "takes one argument",
		"backends drain gpu-9:8000 --admin @":              `there is no backend "gpu-9:8000"`,
		"backends add http://x:1 --lease 2h --admin @":     "lease: 2h",
		"explain --router @":                               "--file is missing",
		"explain --file /no/such --router @":               "--file: open /no/such",
		"decisions -n 20000 --admin @":                     "--count: 20000",
		"decisions -n 0 --admin @":                         "--count: 0",
		"hits --since 25h --admin @":                       "--since: 25h",
		"strategy set --w 9 --admin @":                     "--w: 9 is not",
		"explain --file /dev/null --router @":              "--file: request body is empty",
		"status --admin ftp://x":                           "--admin: \"ftp://x\"",
		"status --admin http://":                           "--admin: \"http://\"",
		"backends add http://x --concurrency-threshold -1": "--concurrency-threshold",
	} {
		_, err := c.run(t.Context(), strings.Fields(line)...)
		if _, usage := errors.AsType[*cli.UsageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a mistake about %s", line, err, want)
		}
	}
	notRouter := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(notRouter.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for line, want := range map[string]string{
		"status --admin " + gone.URL:                               "no router answers at " + gone.URL + " (--admin)",
		"status --admin " + notRouter.URL:                          "(--admin) is not the admin port of a router",
		"explain --file " + body(t) + " --router " + notRouter.URL: "(--router) is not the port of a router that takes requests",
	} {
		_, err := c.run(t.Context(), strings.Fields(line)...)
		if _, usage := errors.AsType[*cli.UsageError](err); err == nil || usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a failure: %s", line, err, want)
		}
	}
}

// What is watched or followed goes on until it is interrupted, which is no failure.
func TestFollowAndWatch(t *testing.T) {
	for _, line := range []string{"status --watch --admin @", "decisions --follow --admin @", "decisions --follow -o json --admin @"} {
		c := newConsole(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.records <- aRecord()
		ended := make(chan error, 1)
		printed := make(chan struct{}, 1)
		var text strings.Builder
		go func() {
			root := &cobra.Command{Use: "warmroute", SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(Commands()...)
			root.SetArgs(strings.Fields(strings.ReplaceAll(line, "@", c.url)))
			root.SetOut(writerFunc(func(p []byte) (int, error) {
				text.Write(p)
				select {
				case printed <- struct{}{}:
				default:
				}
				return len(p), nil
			}))
			ended <- root.ExecuteContext(ctx)
		}()
		<-printed
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !strings.Contains(text.String(), "gpu-2:8000") && !strings.Contains(text.String(), "4 more") {
			t.Errorf("%s printed %q", line, text.String())
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A call that is under way shows in the table.
func TestStatusShowsLoad(t *testing.T) {
	c := newConsole(t)
	if _, err := c.service.Route(t.Context(), &v1.RouteRequest{
		Prompt: &v1.Prompt{Model: "m", Content: &v1.Prompt_Text{Text: strings.Repeat("x ", 2000)}}, Lease: durationpb.New(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	out, err := c.run(t.Context(), "status", "--admin", "@")
	if err != nil || !strings.Contains(out, "1/128") {
		t.Errorf("%v\n%s", err, out)
	}
}
