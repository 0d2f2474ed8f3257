package workload_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
)

// turn is a request of a log, a second after the one before.
type turn struct {
	keys                   []kvindex.Key
	prompt, output, cached int // tokens; -1 is not reported
	lasted                 float64
}

// logOf writes a log of requests whose tokens are 4 bytes long.
func logOf(t interface{ Fatal(...any) }, turns []turn) []byte {
	var log []byte
	reported := func(n int) *int {
		if n < 0 {
			return nil
		}
		return &n
	}
	for i, turn := range turns {
		r := workload.LoggedRequest{
			Arrived: time.Unix(int64(i), 0).UTC(), Pool: "p", DurationSeconds: turn.lasted,
			PromptTokens: reported(turn.prompt), OutputTokens: reported(turn.output), CachedTokens: reported(turn.cached),
			StreamBytes: max(4*turn.prompt, 256*len(turn.keys)), BlockBytes: 256, Keys: turn.keys,
		}
		line, err := r.AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, line...)
	}
	return log
}

func keys(n ...kvindex.Key) []kvindex.Key { return n }

// A prompt that goes on with an answer begins with the whole prompt before it and that answer.
func TestRequestLogGoesOnWithAnswers(t *testing.T) {
	first, second := turn{keys(1, 2), 150, 100, 0, 0.5}, turn{keys(1, 2, 3, 4), 300, 50, 240, 0.5}
	third := turn{keys(1, 2, 3, 4, 5, 6), 400, 9, 340, 0.5}
	for name, c := range map[string]struct {
		turns []turn
		want  int // tokens that the second has in common with the first and its answer
	}{
		"as the engine found":         {[]turn{first, second}, 250},
		"nobody knows":                {[]turn{first, {second.keys, 300, 50, -1, 0.5}}, 250},
		"on an engine that has less":  {[]turn{first, {second.keys, 300, 50, 16, 0.5}}, 250},
		"the engine found no more":    {[]turn{first, {second.keys, 300, 50, 128, 0.5}}, 128},
		"shorter than both":           {[]turn{first, {second.keys, 240, 50, -1, 0.5}}, 128},
		"sent before the answer":      {[]turn{{first.keys, 150, 100, 0, 1.5}, second}, 128},
		"no such answer":              {[]turn{{first.keys, 150, 0, 0, 0.5}, second}, 128},
		"an answer of unknown length": {[]turn{{first.keys, 150, -1, 0, 0.5}, second}, 128},
		"a prompt of unknown length":  {[]turn{{first.keys, -1, 100, 0, 0.5}, second}, 128},
	} {
		w, err := workload.ReadRequestLog(bytes.NewReader(logOf(t, c.turns)), 1)
		if err != nil {
			t.Fatal(err)
		}
		requests := play(t, w, 1, 0)
		whole := requests[0].Prompt
		if requests[0].Answer != 0 {
			whole = append(whole[:len(whole):len(whole)], workload.Segment{ID: requests[0].Answer, Tokens: requests[0].OutputTokens})
		}
		if got := common(whole, requests[1].Prompt); got != c.want {
			t.Errorf("%s: %d tokens in common, want %d", name, got, c.want)
		}
		if got := workload.Tokens(requests[1].Prompt); got != c.turns[1].prompt {
			t.Errorf("%s: a prompt of %d tokens, want %d", name, got, c.turns[1].prompt)
		}
	}
	w, err := workload.ReadRequestLog(bytes.NewReader(logOf(t, []turn{first, second, third, second})), 1)
	if err != nil {
		t.Fatal(err)
	}
	requests := play(t, w, 1, 0)
	for i, want := range [][]int{{64, 64, 22}, {64, 64, 22, 100, 6, 44}, {64, 64, 22, 100, 6, 44, 50, 34, 16}, {64, 64, 22, 100, 6, 44}} {
		if diff := cmp.Diff(want, lengths(requests[i].Prompt)); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i, diff)
		}
	}
}

// What most prompts prove holds for those of which nothing is known.
func TestRequestLogGoesOnAsMostDo(t *testing.T) {
	for name, c := range map[string]struct{ proved, want int }{"they do": {240, 250}, "they do not": {128, 128}} {
		var turns []turn
		for i := range kvindex.Key(5) {
			cached := c.proved
			if i == 4 {
				cached = -1
			}
			turns = append(turns, turn{keys(10*i+1, 10*i+2), 150, 100, 0, 0.5}, turn{keys(10*i+1, 10*i+2, 10*i+3, 10*i+4), 300, 50, cached, 0.5})
		}
		w, err := workload.ReadRequestLog(bytes.NewReader(logOf(t, turns)), 1)
		if err != nil {
			t.Fatal(err)
		}
		requests := play(t, w, 1, 0)
		last := requests[len(requests)-2:]
		whole := append(last[0].Prompt[:len(last[0].Prompt):len(last[0].Prompt)], workload.Segment{ID: last[0].Answer, Tokens: 100})
		if got := common(whole, last[1].Prompt); got != c.want {
			t.Errorf("%s: %d tokens in common, want %d", name, got, c.want)
		}
	}
}

// Whatever goes on with what, prompts have as much in common as their blocks say or more, and
// all of their tokens.
func TestRequestLogAnswersTakeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var turns, plain []turn
		for i := range rapid.IntRange(1, 12).Draw(rt, "requests") {
			var chain []kvindex.Key
			if i > 0 {
				from := turns[rapid.IntRange(0, i-1).Draw(rt, "from")].keys
				kept := len(from)
				if rapid.Bool().Draw(rt, "cut") {
					kept = rapid.IntRange(0, len(from)).Draw(rt, "kept")
				}
				chain = append(chain, from[:kept]...)
			}
			for range rapid.IntRange(0, 4).Draw(rt, "more") {
				chain = append(chain, kvindex.Key(1000*i+len(chain)))
			}
			r := turn{
				chain, 64*len(chain) + rapid.IntRange(0, 63).Draw(rt, "tail"), rapid.IntRange(-1, 150).Draw(rt, "output"),
				rapid.IntRange(-1, 300).Draw(rt, "cached"), 0.5,
			}
			turns = append(turns, r)
			r.output = -1
			plain = append(plain, r)
		}
		var both [2][]workload.Request
		for i, turns := range [][]turn{turns, plain} {
			w, err := workload.ReadRequestLog(bytes.NewReader(logOf(rt, turns)), 1)
			if err != nil {
				rt.Fatal(err)
			}
			both[i] = play(t, w, 1, 0)
		}
		for i, a := range both[0] {
			if got, want := workload.Tokens(a.Prompt), workload.Tokens(both[1][i].Prompt); got != want {
				rt.Fatalf("a prompt of %d tokens, want %d", got, want)
			}
			for j := range i {
				if got, least := common(a.Prompt, both[0][j].Prompt), common(both[1][i].Prompt, both[1][j].Prompt); got < least {
					rt.Fatalf("%d tokens in common of requests %d and %d, want at least %d", got, j, i, least)
				}
			}
		}
	})
}

// What a router remembers is played as its log is.
func TestRememberedIsPlayedAsLogged(t *testing.T) {
	turns := []turn{
		{keys(1, 2), 150, 100, 0, 0.5}, {keys(1, 2, 3, 4), 300, 50, 240, 0.5}, {nil, 10, -1, -1, 0}, {keys(1, 9), -1, 20, -1, 0.1},
	}
	w, err := workload.ReadRequestLog(bytes.NewReader(logOf(t, turns)), 1)
	if err != nil {
		t.Fatal(err)
	}
	var r workload.Remembered
	numbers := make(map[kvindex.Key]int32)
	for i, turn := range turns {
		last := int32(workload.NoBlock)
		for _, key := range turn.keys {
			if _, ok := numbers[key]; !ok {
				numbers[key] = r.Block(key, last)
			}
			last = numbers[key]
		}
		r.Request(workload.RememberedRequest{
			At: time.Duration(i+3) * time.Second, Lasted: time.Duration(turn.lasted * float64(time.Second)),
			Last: last, Depth: int32(len(turn.keys)), BlockBytes: 256, StreamBytes: int32(4 * turn.prompt),
			PromptTokens: int32(turn.prompt), OutputTokens: int32(turn.output), CachedTokens: int32(turn.cached),
		})
	}
	remembered := r.Workload("p")
	if diff := cmp.Diff(play(t, w, 1, 0), play(t, remembered, 1, 0)); diff != "" || remembered.Requests != len(turns) {
		t.Errorf("%d requests, (-logged +remembered):\n%s", remembered.Requests, diff)
	}
}
