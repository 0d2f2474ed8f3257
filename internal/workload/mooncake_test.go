package workload_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestReadMooncake(t *testing.T) {
	w := open(t, workload.KindMooncake, workload.Options{})
	requests := play(t, w, 1, 0)
	if len(requests) != 4 || w.Requests != 4 {
		t.Fatalf("%d requests, promised %d, want 4", len(requests), w.Requests)
	}
	// The two of the first tick may have changed places.
	first, second, third, last := requests[0], requests[1], requests[2], requests[3]
	if first.OutputTokens != 50 {
		first, second = second, first
	}
	for _, c := range []struct {
		name    string
		r       workload.Request
		tick    time.Duration
		lengths []int
		output  int
	}{
		{"first", first, 0, []int{512, 512, 176}, 50},
		{"second", second, 0, []int{512, 512, 176}, 1}, // an answer has a token at least
		{"third", third, 3 * time.Second, []int{512, 512}, 7},
		{"last", last, 5999 * time.Millisecond, []int{100}, 7},
	} {
		if diff := cmp.Diff(c.lengths, lengths(c.r.Prompt)); diff != "" || c.r.OutputTokens != c.output {
			t.Errorf("%s: output %d, want %d, prompt (-want +got):\n%s", c.name, c.r.OutputTokens, c.output, diff)
		}
		if c.r.At < c.tick || c.r.At > c.tick+3*time.Second || c.r.At == c.tick {
			t.Errorf("%s: at %v, want within 3 s from %v", c.name, c.r.At, c.tick)
		}
	}
	// Full blocks are shared; partial ones are not, whatever they are called.
	if got := common(first.Prompt, second.Prompt); got != 1024 {
		t.Errorf("first and second share %d tokens, want 1024", got)
	}
	if got := common(first.Prompt, third.Prompt); got != 512 {
		t.Errorf("first and third share %d tokens, want 512", got)
	}
	if got := common(first.Prompt, last.Prompt); got != 0 {
		t.Errorf("first and last share %d tokens, want 0", got)
	}
}

// A trace with times of its own keeps them.
func TestMooncakeWithoutTicks(t *testing.T) {
	const text = `{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1]}
{"timestamp": 40.5, "input_length": 10, "output_length": 1, "hash_ids": [2]}
{"timestamp": 3000, "input_length": 10, "output_length": 1, "hash_ids": []}`
	w, err := workload.ReadMooncake(strings.NewReader(text), 2)
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Duration
	for _, r := range play(t, w, 1, 0) {
		at = append(at, r.At)
	}
	if diff := cmp.Diff([]time.Duration{0, 20250 * time.Microsecond, 1500 * time.Millisecond}, at); diff != "" {
		t.Errorf("times under a load of 2 (-want +got):\n%s", diff)
	}
}

// A trace begins with its first request, whatever time that has, and under any load.
func TestMooncakeBeginsAtItsFirstRequest(t *testing.T) {
	for _, first := range []int{0, 7_000, 1_700_000_000, 1_700_000_000_123} {
		var text strings.Builder
		for _, ms := range []int{0, 40, 2000} {
			fmt.Fprintf(&text, `{"timestamp": %d, "input_length": 10, "output_length": 1, "hash_ids": []}`+"\n", first+ms)
		}
		w, err := workload.ReadMooncake(strings.NewReader(text.String()), 2)
		if err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, r := range play(t, w, 1, 0) {
			at = append(at, r.At)
		}
		if diff := cmp.Diff([]time.Duration{0, 20 * time.Millisecond, time.Second}, at); diff != "" {
			t.Errorf("first at %d ms: times under a load of 2 (-want +got):\n%s", first, diff)
		}
	}
}

func TestReadMooncakeNamesTheLine(t *testing.T) {
	const good = `{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [0]}` + "\n"
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"cut short", good + `{"timestamp": 1, "inp`, 2, "not a request of a Mooncake trace"},
		{"no time", `{"input_length": 512, "output_length": 1, "hash_ids": [0]}`, 1, `"timestamp" is missing`},
		{"null time", `{"timestamp": null, "input_length": 512, "output_length": 1, "hash_ids": [0]}`, 1, `"timestamp" is missing`},
		{"negative time", `{"timestamp": -1, "input_length": 512, "output_length": 1, "hash_ids": [0]}`, 1, `"timestamp": -1 is negative`},
		{"a year later", good + `{"timestamp": 1760428436442742, "input_length": 512, "output_length": 1, "hash_ids": [0]}`, 2, `"timestamp": 1760428436442742 is more than a year (31622400000) after 3000, the first`},
		{"time of 1e999", `{"timestamp": 1e999, "input_length": 512, "output_length": 1, "hash_ids": [0]}`, 1, "1e999"},
		{"backwards", good + `{"timestamp": 2999, "input_length": 512, "output_length": 1, "hash_ids": [0]}`, 2, `"timestamp": 2999 is before 3000, the time before it`},
		{"no length", `{"timestamp": 0, "output_length": 1, "hash_ids": [0]}`, 1, `"input_length" is missing`},
		{"empty prompt", `{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}`, 1, `"input_length": 0 tokens`},
		{"absurd prompt", `{"timestamp": 0, "input_length": 99999999, "output_length": 1, "hash_ids": []}`, 1, `"input_length": 99999999 tokens`},
		{"length of 1e30", `{"timestamp": 0, "input_length": 1e30, "output_length": 1, "hash_ids": []}`, 1, "1e30"},
		{"negative answer", `{"timestamp": 0, "input_length": 512, "output_length": -5, "hash_ids": [0]}`, 1, `"output_length": -5 tokens`},
		{"no blocks", `{"timestamp": 0, "input_length": 512, "output_length": 1}`, 1, `"hash_ids" is missing`},
		{"too many blocks", `{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2, 3]}`, 1, `"hash_ids": 3 blocks of 512 tokens`},
		{"negative block", good + `{"timestamp": 3000, "input_length": 600, "output_length": 1, "hash_ids": [-1]}`, 2, "-1"},
	} {
		_, err := workload.ReadMooncake(strings.NewReader(c.text), 1)
		line, ok := errors.AsType[*workload.LineError](err)
		if !ok || line.Line != c.line || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want line %d and %q", c.name, err, c.line, c.says)
		}
	}
}
