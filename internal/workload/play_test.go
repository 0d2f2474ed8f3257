package workload_test

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

// latency is how long every answer takes with [play].
const latency = time.Second

// play plays a workload to its end, or to its first limit requests where that is above 0,
// and answers all after the same time. It returns the requests in the order in which they
// are sent.
func play(t *testing.T, w *workload.Workload, seed uint64, limit int) []workload.Request {
	t.Helper()
	return playWith(t, w, seed, limit, func(workload.Request) (time.Duration, bool) { return latency, true })
}

// playWith is play where become says how long a request takes and whether it is answered.
func playWith(t *testing.T, w *workload.Workload, seed uint64, limit int,
	become func(r workload.Request) (took time.Duration, answered bool),
) []workload.Request {
	t.Helper()
	source := w.Play(seed)
	var due, sent []workload.Request
	await := func(r workload.Request, ok bool) {
		if ok {
			at, _ := slices.BinarySearchFunc(due, r.At+1, func(r workload.Request, at time.Duration) int { return cmp.Compare(r.At, at) })
			due = slices.Insert(due, at, r)
		}
	}
	next, more := source.Next()
	for (more || len(due) > 0) && (limit == 0 || len(sent) < limit) {
		if more && (len(due) == 0 || next.At <= due[0].At) {
			before := next.At
			await(next, true)
			if next, more = source.Next(); more && next.At < before {
				t.Fatalf("times run backwards: %v after %v", next.At, before)
			}
			continue
		}
		r := due[0]
		due = due[1:]
		switch {
		case len(sent) > 0 && r.At < sent[len(sent)-1].At:
			t.Fatalf("a request at %v comes of one that is sent later", r.At)
		case workload.Tokens(r.Prompt) < 1 || r.OutputTokens < 1:
			t.Fatalf("a request of %d tokens, answer %d", workload.Tokens(r.Prompt), r.OutputTokens)
		case slices.ContainsFunc(r.Prompt, func(s workload.Segment) bool { return s.Tokens < 1 }):
			t.Fatalf("an empty segment in %v", r.Prompt)
		}
		sent = append(sent, r)
		took, answered := become(r)
		await(source.Ended(&r, r.At+took, answered))
	}
	return sent
}

// common is how many tokens two prompts have in common from their beginning.
func common(a, b []workload.Segment) int {
	n := 0
	for i := range min(len(a), len(b)) {
		if a[i].ID != b[i].ID {
			break
		}
		n += min(a[i].Tokens, b[i].Tokens)
		if a[i].Tokens != b[i].Tokens {
			break
		}
	}
	return n
}

// lengths are the lengths of a prompt's segments.
func lengths(prompt []workload.Segment) []int {
	out := make([]int, 0, len(prompt))
	for _, s := range prompt {
		out = append(out, s.Tokens)
	}
	return out
}

// fixtures are the files of testdata by kind.
var fixtures = map[string]string{
	workload.KindMooncake:   "mooncake.jsonl",
	workload.KindWeka:       "weka.jsonl",
	workload.KindAgentText:  "agent_text.jsonl",
	workload.KindRequestLog: "request_log.jsonl",
}

// fixture is the content of a file of testdata.
func fixture(t testing.TB, kind string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", fixtures[kind]))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(t *testing.T, kind string, o workload.Options) *workload.Workload {
	t.Helper()
	var file io.Reader
	if !workload.Generated(kind) {
		file = bytes.NewReader(fixture(t, kind))
	}
	w, err := workload.Open(kind, file, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Every kind can be played any number of times, also at the same time, and equal seeds give
// equal requests.
func TestPlaysRepeat(t *testing.T) {
	for _, kind := range workload.Kinds() {
		t.Run(kind, func(t *testing.T) {
			const limit = 300
			w := open(t, kind, workload.Options{})
			want := play(t, w, 1, limit)
			if w.Requests > 0 && min(w.Requests, limit) != len(want) {
				t.Errorf("%d requests were promised, %d came", w.Requests, len(want))
			}
			var plays sync.WaitGroup
			for range 4 {
				plays.Go(func() {
					if diff := gocmp.Diff(want, play(t, w, 1, limit)); diff != "" {
						t.Errorf("plays of one seed differ:\n%s", diff)
					}
				})
			}
			plays.Wait()
			recorded := kind == workload.KindAgentText || kind == workload.KindRequestLog
			if same := gocmp.Equal(want, play(t, w, 2, limit)); same != recorded {
				t.Errorf("plays of two seeds are the same: %v", same)
			}
		})
	}
}

// Twice the load sends the first requests of an open loop in half the time, and sessions or
// users follow each other closer.
func TestLoad(t *testing.T) {
	for _, kind := range workload.Kinds() {
		begins := func(load float64) time.Duration {
			source := open(t, kind, workload.Options{Load: load}).Play(1)
			var last time.Duration
			for range 3 {
				r, ok := source.Next()
				if !ok {
					t.Fatalf("%s: fewer than 3 requests come by themselves", kind)
				}
				last = r.At
			}
			return last
		}
		one, two := begins(1), begins(2)
		if one != begins(0) {
			t.Errorf("%s: no load is not a load of 1", kind)
		}
		if kind == workload.KindAgentText { // more users, each as long after the other
			continue
		}
		if two > one*3/4 {
			t.Errorf("%s: the third request comes at %v, under twice the load at %v", kind, one, two)
		}
	}
}
