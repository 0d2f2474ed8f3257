//go:build !race

package rpc_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Callers that ask and are never heard of again leave nothing behind.
func TestCallersThatVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *setup) { s.config.ConcurrencyThreshold = 1024 })
		for i := range 10_000 {
			if _, err := w.service.Route(t.Context(), ask(short(fmt.Sprint(i)))); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if got := w.service.OpenDecisions(); got != 10_000 {
			t.Errorf("%d decisions are open", got)
		}
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if w.inFlight() != 0 || w.blocks() != 0 || w.service.OpenDecisions() != 0 || len(w.recorded()) != 10_000 {
			t.Errorf("%d in flight, %d blocks, %d open, %d records", w.inFlight(), w.blocks(), w.service.OpenDecisions(), len(w.recorded()))
		}
	})
}
