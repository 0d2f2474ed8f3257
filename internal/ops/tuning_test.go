package ops

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/feedback/tuning"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// board is what routers share.
type board struct {
	mu     sync.Mutex
	values map[string]string
}

func (b *board) Set(_ string, values map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.values, values)
}

func (b *board) Settings(string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

// What is said of a pool in automatic mode: at first, of the step of another router, and when it is
// turned off again.
func TestTuning(t *testing.T) {
	shared := &board{values: make(map[string]string)}
	leads := true
	c := newConsoleOf(t, router.DefaultConfig(), nil, func(o *rpc.AdminOptions) {
		o.Settings, o.Leads = shared, func() bool { return leads }
	})
	says := func(want ...string) {
		t.Helper()
		out, err := c.run(t.Context(), "tuning", "--admin", "@")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(out, line+"\n") {
				t.Errorf("no line %q in\n%s", line, out)
			}
		}
	}
	rules := tuning.Rules{Observation: 6 * time.Minute}
	c.admin.Automatic("chat", &rules)
	says("pool chat: automatic mode is on, a step is watched for 6m0s, this router leads", "no step was made")

	made := time.Date(2026, 11, 30, 14, 31, 59, 0, time.Local)
	step := tuning.Step{
		Fate: tuning.Kept, Setting: tuning.ConcurrencyThreshold, From: 4, To: 16, At: made,
		Before: tuning.Delivered{HitRate: .5, Error: .01, P90: 207 * time.Millisecond},
	}
	shared.Set("chat", map[string]string{"tuning": step.String()})
	c.admin.Adopt("chat")
	leads = false
	says(
		"pool chat: automatic mode is on, a step is watched for 6m0s, this router follows",
		"30 Nov 14:31  concurrency_threshold     4  →  16  kept  50.0 % → -  207 ms → -",
		"    made by another router",
	)
	out, err := c.run(t.Context(), "tuning", "--pool", "chat", "-o", "json", "--admin", "@")
	var answer struct {
		Pools []struct {
			Observation string
			Steps       []struct{ From, To int }
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil || len(answer.Pools) != 1 || answer.Pools[0].Observation != "360s" || len(answer.Pools[0].Steps) != 1 || answer.Pools[0].Steps[0].To != 16 {
		t.Errorf("%v\n%s", err, out)
	}
	c.admin.Automatic("chat", nil)
	says("pool chat: automatic mode is off", "    - name: chat")
}

// measured is what was delivered, for a step.
func measured(hitRate float64, p90 time.Duration) *v1.TuningMeasure {
	m := &v1.TuningMeasure{Answers: 512, HitRate: hitRate}
	if p90 > 0 {
		m.TtftP90 = durationpb.New(p90)
	}
	return m
}

// Steps line up, with their reasons below, in lines that a terminal holds.
func TestDrawTuning(t *testing.T) {
	at := func(hour, minute int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 11, 3, hour, minute, 0, 0, time.Local))
	}
	pools := []*v1.PoolTuning{
		{Pool: "code"},
		{
			Pool: "docs", Automatic: true, Leads: true, Observation: durationpb.New(15 * time.Minute), Doing: "watching what comes of prefix_length 16384: part 3 of 6",
			Steps: []*v1.TuningStep{
				{
					Setting: "prefix_length", From: 4096, To: 16384, At: at(15, 2), Fate: "watched", Before: measured(.853, 62*time.Millisecond),
					Why: "16384 is advised: 16384 is the smallest that does about as well as any; with 4096, the hit rate is 85.3 % instead of 97.3 %, and P90 62ms instead of 16.4ms",
				},
				{
					Setting: "concurrency_threshold", From: 128, To: 32, At: at(14, 46), Fate: "taken_back", Before: measured(.853, 62*time.Millisecond), After: measured(.711, 1204*time.Millisecond),
					Why: "8 is advised: 8 is better; taken back: the hit rate fell from 85.3 % to 71.1 %",
				},
				{Setting: "prefix_length", From: 1024, To: 4096, At: at(9, 31), Fate: "kept", Before: measured(.507, 0), After: measured(.853, 62*time.Millisecond), Why: "16384 is advised: it is the smallest"},
			},
		},
		{Pool: "chat"},
		{Pool: "mail"},
	}
	var b strings.Builder
	drawTuning(&b, pools)
	file := filepath.Join("testdata", "tuning.txt")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%swant %s:\n%s", b.String(), file, want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 100 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "one": "one", "one two": "one two", "one two three": "one two|three", "α β γ δ ε": "α β γ δ|ε", "a incomprehensible b": "a|incomprehensible|b",
	} {
		if got := strings.Join(wrapped(text, 7), "|"); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
