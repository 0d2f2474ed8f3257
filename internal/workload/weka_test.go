package workload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/internal/workload"
)

const wekaHeader = `{"block": 64, "request": ["t", "in", "out", "api_time", "think_time", "keep", "rle"]}` + "\n"

// bySession are the requests of a play, by session.
func bySession(requests []workload.Request) map[int][]workload.Request {
	sessions := make(map[int][]workload.Request)
	for _, r := range requests {
		sessions[r.Session] = append(sessions[r.Session], r)
	}
	return sessions
}

func TestReadWeka(t *testing.T) {
	w := open(t, workload.KindWeka, workload.Options{Window: time.Minute})
	if w.Requests != 7 {
		t.Errorf("%d requests are promised, want 7", w.Requests)
	}
	sessions := bySession(play(t, w, 1, 0))
	a, b, c := sessions[0], sessions[1], sessions[2]
	if len(a) != 4 || len(b) != 1 || len(c) != 2 {
		t.Fatalf("sessions of %d, %d and %d requests, want 4, 1 and 2", len(a), len(b), len(c))
	}
	for i, want := range []struct {
		lengths []int
		output  int
		pause   time.Duration // after the end of the request before
	}{
		{[]int{128, 64, 8}, 5, 0},                 // two blocks of the head, one more, what has no name
		{[]int{128, 192, 10}, 7, 3 * time.Second}, // runs that continue each other are one
		{[]int{64, 192, 74}, 1, 300 * time.Second},
		{[]int{128, 192, 10}, 1, 0}, // the blocks of the second request, told otherwise
	} {
		if diff := cmp.Diff(want.lengths, lengths(a[i].Prompt)); diff != "" || a[i].OutputTokens != want.output || a[i].Answer != 0 {
			t.Errorf("request %d: output %d, want %d, prompt (-want +got):\n%s", i, a[i].OutputTokens, want.output, diff)
		}
		if i > 0 && a[i].At != a[i-1].At+latency+want.pause {
			t.Errorf("request %d comes %v after the end of the one before, want %v", i, a[i].At-a[i-1].At-latency, want.pause)
		}
	}
	for _, s := range sessions {
		if s[0].At < 0 || s[0].At > time.Minute {
			t.Errorf("a session begins at %v, the window is a minute", s[0].At)
		}
	}
	for _, share := range []struct {
		name   string
		a, b   workload.Request
		tokens int
	}{
		{"a prompt and the next", a[0], a[1], 192},
		{"a cut back prompt", a[1], a[2], 64},
		{"blocks that come back", a[1], a[3], 320},
		{"sessions with one head", a[0], b[0], 128},
		{"sessions with two heads", a[0], c[0], 0},
	} {
		if got := common(share.a.Prompt, share.b.Prompt); got != share.tokens {
			t.Errorf("%s: %d tokens in common, want %d", share.name, got, share.tokens)
		}
	}
}

// A session goes on after a request that failed.
func TestWekaGoesOn(t *testing.T) {
	source := open(t, workload.KindWeka, workload.Options{}).Play(1)
	r, ok := source.Next()
	for r.Session != 0 {
		r, ok = source.Next()
	}
	n := 0
	for ; ok; n++ {
		r, ok = source.Ended(&r, r.At, false)
	}
	if n != 4 {
		t.Errorf("%d requests of a session of 4", n)
	}
}

// wekaDraft is a session as the test makes it: the blocks of each prompt, whole.
type wekaDraft struct {
	tool, system int
	prompts      [][]int
}

// line writes the session in the delta form of the file, cut into runs at random.
func (d wekaDraft) line(rt *rapid.T) []byte {
	requests := make([][]any, 0, len(d.prompts))
	var before []int
	for i, ids := range d.prompts {
		most := 0
		for most < min(len(before), len(ids)) && before[most] == ids[most] {
			most++
		}
		keep := rapid.IntRange(0, most).Draw(rt, "keep")
		rle := []int{}
		for at := keep; at < len(ids); {
			n := 1
			for at+n < len(ids) && ids[at+n] == ids[at]+n && rapid.IntRange(0, 3).Draw(rt, "cut") > 0 {
				n++
			}
			rle = append(rle, ids[at], n)
			at += n
		}
		requests = append(requests, []any{i, len(ids)*64 + i%64, 1, 1, 0, keep, rle})
		before = ids
	}
	data, err := json.Marshal(map[string]any{"tool_tokens": d.tool, "system_tokens": d.system, "requests": requests})
	if err != nil {
		rt.Fatal(err)
	}
	return append(data, '\n')
}

// TestWekaSharesWhatIsEqual: however a file tells its prompts, any two of them have exactly
// the blocks in common that they begin with, and sessions with one head that head.
func TestWekaSharesWhatIsEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var drafts []wekaDraft
		file := []byte(wekaHeader)
		for range rapid.IntRange(1, 3).Draw(rt, "sessions") {
			d := wekaDraft{tool: 64 * rapid.IntRange(0, 2).Draw(rt, "tool"), system: 64 * rapid.IntRange(0, 2).Draw(rt, "system")}
			ids := []int{}
			for range rapid.IntRange(1, 5).Draw(rt, "prompts") {
				ids = slices.Clone(ids[:rapid.IntRange(0, len(ids)).Draw(rt, "kept")])
				for range rapid.IntRange(0, 3).Draw(rt, "runs") {
					start := rapid.IntRange(1, 8).Draw(rt, "start")
					for i := range rapid.IntRange(1, 4).Draw(rt, "length") {
						ids = append(ids, start+i)
					}
				}
				if len(ids) > 0 {
					d.prompts = append(d.prompts, ids)
				}
			}
			drafts = append(drafts, d)
			file = append(file, d.line(rt)...)
		}
		w, err := workload.ReadWeka(bytes.NewReader(file), workload.WekaConfig{})
		if err != nil {
			if w == nil && slices.ContainsFunc(drafts, func(d wekaDraft) bool { return len(d.prompts) > 0 }) {
				rt.Fatal(err)
			}
			return
		}
		sessions := bySession(play(t, w, 1, 0))
		for i, a := range drafts {
			for j, b := range drafts {
				head := 0
				if a.tool == b.tool && a.system == b.system {
					head = (a.tool + a.system) / 64
				}
				for p, idsA := range a.prompts {
					for q, idsB := range b.prompts {
						if i == j && p == q {
							continue
						}
						want := 0
						for want < min(len(idsA), len(idsB)) && idsA[want] == idsB[want] && (i == j || idsA[want] <= head) {
							want++
						}
						if got := common(sessions[i][p].Prompt, sessions[j][q].Prompt); got != 64*want {
							rt.Fatalf("%v and %v have %d tokens in common, want %d (head of %d blocks, one session: %v)",
								idsA, idsB, got, 64*want, head, i == j)
						}
					}
				}
			}
		}
	})
}

func TestReadWekaNamesTheLine(t *testing.T) {
	session := func(requests string) string {
		return wekaHeader + `{"tool_tokens": 0, "system_tokens": 0, "requests": [` + requests + `]}`
	}
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"no session", wekaHeader, 1, "the file holds no requests"},
		{"no requests", session(""), 1, "the file holds no requests"},
		{"no header", session("[0,64,1,1,0,0,[1,1]]")[len(wekaHeader):], 1, `"block" is missing`},
		{"absurd block", `{"block": 0}`, 1, `"block": 0 tokens`},
		{"another order", `{"block": 64, "request": ["in", "t"]}`, 1, `"request": the values of a request must be`},
		{"cut short", wekaHeader + `{"tool_tok`, 2, "not a session of a Weka trace"},
		{"no tools", wekaHeader + `{"system_tokens": 0, "requests": []}`, 2, `"tool_tokens" is missing`},
		{"no system", wekaHeader + `{"tool_tokens": 0, "requests": []}`, 2, `"system_tokens" is missing`},
		{"negative system", wekaHeader + `{"tool_tokens": 0, "system_tokens": -7, "requests": []}`, 2, `"system_tokens": -7 tokens`},
		{"no list", wekaHeader + `{"tool_tokens": 0, "system_tokens": 0}`, 2, `"requests" is missing`},
		{"few values", session("[0,64,1,1,0,0,[1,1]],[1,2]"), 2, "request 2: it has 2 values, want 7"},
		{"text", session(`[0,"64",1,1,0,0,[1,1]]`), 2, `request 1: "in": `},
		{"null", session("[null,64,1,1,0,0,[1,1]]"), 2, `"t" is missing`},
		{"negative time", session("[-1,64,1,1,0,0,[1,1]]"), 2, `"t": -1 is negative`},
		{"a year later", session("[1.7e9,64,1,1,0,0,[1,1]],[1.8e9,64,1,1,0,1,[]]"), 2, `request 2: "t": 1800000000 is more than a year (31622400) after 1700000000, the first`},
		{"backwards", session("[5,64,1,1,0,0,[1,1]],[4.5,64,1,1,0,1,[]]"), 2, `request 2: "t": 4.5 is before 5, the time before it`},
		{"negative think", session("[0,64,1,1,-2,0,[1,1]]"), 2, `"think_time": -2`},
		{"empty prompt", session("[0,0,1,1,0,0,[]]"), 2, `"in": 0 tokens`},
		{"absurd prompt", session("[0,6400000000,1,1,0,0,[]]"), 2, `"in": 6400000000 tokens`},
		{"negative answer", session("[0,64,-1,1,0,0,[1,1]]"), 2, `"out": -1 tokens`},
		{"keep of nothing", session("[0,64,1,1,0,1,[]]"), 2, `"keep": 1 is not in 0..0`},
		{"keep of more", session("[0,128,1,1,0,0,[1,2]],[0,64,1,1,0,2,[]]"), 2, `request 2: "keep": 2 is not in 0..1`},
		{"half a pair", session("[0,64,1,1,0,0,[1]]"), 2, `"rle": 1 numbers are not pairs`},
		{"run of nothing", session("[0,64,1,1,0,0,[1,0]]"), 2, `"rle": a run of 0 blocks is not in 1..1`},
		{"too many blocks", session("[0,191,1,1,0,0,[1,1,2,2]]"), 2, `"rle": a run of 2 blocks is not in 1..1`},
		{"absurd run", session("[0,191,1,1,0,0,[1,18446744073709551615]]"), 2, `"rle": a run of 18446744073709551615 blocks`},
		{"block 0", session("[0,64,1,1,0,0,[0,1]]"), 2, `"rle": block 0 is not in 1..`},
		{"absurd block number", session("[0,64,1,1,0,0,[99999999999,1]]"), 2, `"rle": block 99999999999 is not in`},
	} {
		_, err := workload.ReadWeka(strings.NewReader(c.text), workload.WekaConfig{})
		line, ok := errors.AsType[*workload.LineError](err)
		if !ok || line.Line != c.line || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want line %d and %q", c.name, err, c.line, c.says)
		}
	}
}
