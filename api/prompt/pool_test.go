package prompt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

func TestReleaseTwice(t *testing.T) {
	r := parse(t, prompt.Chat, `{"model":"a"}`)
	model := r.Model()
	r.Release()
	r.Release()
	parse(t, prompt.Chat, `{"model":"b"}`)
	if model != "a" {
		t.Errorf("model read before Release became %q", model)
	}
}

func TestReleaseLetsGoOfTheLarge(t *testing.T) {
	r, err := prompt.Parse(prompt.Chat, []byte(`{"messages":[{"role":"user","content":"`+strings.Repeat("x", 8<<20)+`"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Hash(small, kvindex.Unlimited, "")
	if got := r.Retained(); got < 8<<20 {
		t.Fatalf("%d bytes held for a stream of 8 MiB", got)
	}
	r.Release()
	if got := r.Retained(); got > 1<<20 {
		t.Errorf("%d bytes held after Release, want at most 1 MiB", got)
	}
}

// Requests of many goroutines share a pool and nothing else.
func TestPoolIsShared(t *testing.T) {
	var group errgroup.Group
	for worker := range 4 {
		body := fmt.Appendf(nil, `{"model":"m%d","messages":[{"role":"user","content":"%s"}]}`, worker, long(fmt.Sprint(worker), 2000))
		want := keysOf(t, prompt.Chat, string(body))
		group.Go(func() error {
			for range 200 {
				r, err := prompt.Parse(prompt.Chat, body)
				if err != nil {
					return err
				}
				if got := r.Hash(small, kvindex.Unlimited, "").Blocks; !slices.Equal(got, want) || r.Model() != fmt.Sprintf("m%d", worker) {
					return fmt.Errorf("worker %d: model %s, keys %x", worker, r.Model(), got)
				}
				r.Release()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
