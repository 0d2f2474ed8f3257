package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/router"
)

// awaitModels waits until every engine has said what it serves.
func (f *fleet) awaitModels() {
	f.t.Helper()
	f.await("every engine has said what it serves", func() bool {
		return !slices.ContainsFunc(f.gateway.Router().Pools()[0].Backends(), func(b *backends.Backend) bool {
			_, known := b.Models()
			return !known
		})
	})
}

// LO-04: requests for an adapter stay on one engine while that has time, whatever their prompts;
// those for the model itself go where they would, and find nothing of the adapter's there.
func TestAdaptersHaveTheirBackends(t *testing.T) {
	const prompts = 6
	adapters := []string{"lora-sql", "lora-law", "lora-poem"}
	f := start(t, setup{
		engines: 4,
		engine:  func(c *server.Config) { c.Model = append([]string{model}, adapters...) },
		configure: func(c *config.Config) {
			c.Pools[0].Models = nil // learned from the engines, which say what is an adapter
		},
	})
	f.awaitModels()
	homes := make(map[string]string)
	for i := range prompts {
		text := prose(uint64(i), 3000)
		for _, adapter := range adapters {
			r := f.mustChat(ask{messages: []message{user(text)}, model: adapter})
			if home, known := homes[adapter]; known && home != r.backend {
				t.Errorf("%s went to %s (%s), before to %s", adapter, r.backend, r.reason, home)
			} else if !known && r.reason != router.AdapterPlaced.String() {
				t.Errorf("the first request for %s: %s", adapter, r.reason)
			}
			homes[adapter] = r.backend
		}
		first := f.mustChat(ask{messages: []message{user(text)}})
		if d := f.decided(first.id); d.MatchedBlocks > 0 || d.Cached != nil && *d.Cached > 0 {
			t.Errorf("the model itself found an adapter's prompt: %+v", d)
		}
	}
	// The second time each finds its own.
	for _, adapter := range adapters {
		r := f.mustChat(ask{messages: []message{user(prose(0, 3000))}, model: adapter})
		if d := f.decided(r.id); d.Cached == nil || *d.Cached < 300 || r.backend != homes[adapter] {
			t.Errorf("%s again: %+v on %s", adapter, d, r.backend)
		}
	}
}

// An adapter that engines load when they are asked for it is named in the configuration.
func TestAdaptersThatNobodyLists(t *testing.T) {
	f := start(t, setup{
		engines: 3,
		configure: func(c *config.Config) {
			c.Pools[0].Models = []config.Model{{Name: model}, {Name: "dynamic", Adapter: true}}
		},
	})
	f.awaitModels()
	asked := make(map[string]bool)
	for i := range 3 {
		r, err := f.chat(t.Context(), ask{messages: []message{user(fmt.Sprint("question ", i))}, model: "dynamic"})
		if err != nil {
			t.Fatal(err)
		}
		// The doubles load nothing: they say 404 themselves, which shows that they were asked.
		if r.status != 404 || r.backend == "" {
			t.Errorf("%+v: want an engine's own 404", r)
		}
		if r.reason != router.AdapterPlaced.String() {
			t.Errorf("reason: %s", r.reason)
		}
		asked[r.backend] = true
	}
	if len(asked) != 3 { // who does not know it is out of the set
		t.Errorf("asked: %v", asked)
	}
}
