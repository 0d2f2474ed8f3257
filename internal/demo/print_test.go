package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/router"
)

var twoResults = []Result{
	{
		Strategy: router.Random, Requests: 400, HitRate: 0.4533, TTFTP50: 1.1649, TTFTP90: 4.02, ShareMin: 0.2179, ShareMax: 0.295,
		PromptTokens: 1000, CachedTokens: 450,
	},
	{
		Strategy: router.PrefixAware, Requests: 400, Errors: 3, HitRate: 0.8, TTFTP50: 0.5, TTFTP90: 0.94, ShareMin: 0.084, ShareMax: 0.35,
		OverflowShare: 0.002, PromptTokens: 1000, CachedTokens: 800, Err: errors.New("the stream broke off"),
	},
}

func TestPrintTable(t *testing.T) {
	var out strings.Builder
	if err := printTable(&out, DefaultConfig(), twoResults, 0); err != nil {
		t.Fatal(err)
	}
	const want = `strategy       requests   hit rate   TTFT P50   TTFT P90   share per backend   overflow   errors
RANDOM         400        45.3 %     1.16 s     4.02 s     21.8–29.5 %         0.0 %      0
PREFIX_AWARE   400        80.0 %     0.50 s     0.94 s     8.4–35.0 %          0.2 %      3

PREFIX_AWARE found 80 % of the prompt tokens cached where RANDOM found 45 %: the engines computed 2.8 times fewer prompt tokens, and half of the answers began 2.3 times sooner.
Hit rate: cached ÷ prompt tokens, as the engines report them. TTFT: at the client, in simulated seconds (the clock's × 20).
PREFIX_AWARE: 3 of 400 requests failed; the first: the stream broke off
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRemarks(t *testing.T) {
	if got := meaning(twoResults[:1], true); !strings.Contains(got, "PREFIX_AWARE") {
		t.Errorf("one strategy alone: %q", got)
	}
	slow := strings.Join(remarks(DefaultConfig(), twoResults, 10*time.Millisecond), "\n")
	if strings.Contains(slow, "sooner") || !strings.Contains(slow, "too busy for --speed 20") || !strings.Contains(slow, "--speed 5.") {
		t.Errorf("a slow machine goes without a remark: %q", slow)
	}
}

// PREFIX_HASH's shares are worth a clause when they are far more uneven.
func TestUnevenShares(t *testing.T) {
	const clause = "; PREFIX_HASH spread the requests unevenly, 5–60 % a backend, PREFIX_AWARE 8–35 %."
	hash := Result{Strategy: router.PrefixHash, Requests: 400, ShareMin: 0.05, ShareMax: 0.6}
	if got := meaning(append([]Result{hash}, twoResults...), true); !strings.HasSuffix(got, clause) {
		t.Errorf("got %q", got)
	}
	hash.ShareMax = 0.55
	if got := meaning(append([]Result{hash}, twoResults...), true); strings.Contains(got, "PREFIX_HASH") {
		t.Errorf("shares about as even: %q", got)
	}
}

func TestPrintJSON(t *testing.T) {
	var out strings.Builder
	if err := printJSON(&out, nil); err != nil || out.String() != "[]\n" {
		t.Errorf("no results: %q, %v", out.String(), err)
	}
}

func TestNoBarWithoutTerminal(t *testing.T) {
	var out strings.Builder
	quiet := newWatcher(&out, &out)
	quiet.Begin("x", 2)
	quiet.Answered()
	quiet.End(Result{})
	if out.Len() > 0 {
		t.Errorf("a bar was drawn: %q", out.String())
	}
	bar := &watcher{to: &out}
	bar.Begin("STRATEGY", 2)
	bar.Answered()
	bar.close()
	if !strings.Contains(out.String(), "STRATEGY") {
		t.Errorf("no bar was drawn: %q", out.String())
	}
}
