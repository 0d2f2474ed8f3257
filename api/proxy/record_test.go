package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// The record that an observer gets has the keys that the decision was made with, once for
// each request, whatever was tried and however it ended; a body without a prompt has none.
func TestRecordsHaveKeys(t *testing.T) {
	var sent atomic.Int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	type seen struct {
		Keys          []kvindex.Key
		Block, Stream int
		Attempts      int
		Result        feedback.Result
	}
	observed := make(chan seen, 4)
	decided := make(chan []kvindex.Key, 4)
	f := start(t, []string{engine(t, handler), engine(t, handler)}, func(s *setup) {
		s.hooks.Decided = func(d *router.Decision) { decided <- slices.Clone(d.Keys()) }
		s.options.Observe = func(r *feedback.Record) {
			observed <- seen{slices.Clone(r.Keys), r.BlockBytes, r.StreamBytes, r.Attempts, r.Result}
		}
	})
	text := strings.Repeat("the quick brown fox ", 50)
	wantOK(t, f.send("POST", chatPath, chat(text)))
	got, first, second := <-observed, <-decided, <-decided
	if len(first) < 3 || !slices.Equal(first, second) {
		t.Fatalf("decided with %v, then %v", first, second)
	}
	// Around the text there are a few bytes of structure.
	if got.Stream < len(text) || got.Stream > len(text)+64 {
		t.Errorf("a stream of %d bytes for a text of %d", got.Stream, len(text))
	}
	want := seen{first, router.DefaultConfig().BlockBytes, got.Stream, 2, feedback.Success}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A cut decides by less, and the record still has all keys.
	config := f.pool.Config()
	config.PrefixLength = router.MinPrefixLength
	if err := f.pool.SetConfig(config); err != nil {
		t.Fatal(err)
	}
	wantOK(t, f.send("POST", chatPath, chat(strings.Repeat(text, 3))))
	got, first = <-observed, <-decided
	if whole := got.Stream / got.Block; len(got.Keys) != whole || len(first) >= whole || !slices.Equal(got.Keys[:len(first)], first) {
		t.Errorf("%d keys of %d blocks, decided by %d of them", len(got.Keys), whole, len(first))
	}

	wantOK(t, f.send("POST", "/v1/embeddings", `{"model":"`+model+`","input":"`+text+`"}`))
	if got := <-observed; got.Keys != nil || got.Block != 0 || got.Stream != 0 {
		t.Errorf("embeddings: %+v", got)
	}
}
