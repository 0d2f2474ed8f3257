package router

import (
	"errors"
	"testing"
)

// One tenant has its share of the line and no more, whoever else waits; what it had is free again
// when a request leaves or is called, and taken again by one that comes back.
func TestShareOfTheLine(t *testing.T) {
	_, p := testPool(t, DefaultConfig(), 1)
	join := func(tenant string) (*Waiter, error) { return p.Join(tenant, 5, 2) }
	must := func(tenant string) *Waiter {
		t.Helper()
		w, err := join(tenant)
		if err != nil {
			t.Fatalf("%q: %v", tenant, err)
		}
		return w
	}
	refused := func(what, tenant string, want error) {
		t.Helper()
		if _, err := join(tenant); !errors.Is(err, want) {
			t.Errorf("%s, %q: %v, want %v", what, tenant, err, want)
		}
	}
	first, second := must("a"), must("a")
	refused("its share is full", "a", ErrShareFull)
	other := must("b")
	second.Leave(false)
	third := must("a")
	refused("it is full again", "a", ErrShareFull)

	p.line.wake(1)
	if !called(first) {
		t.Fatal("the first is not called")
	}
	fourth := must("a") // in the place of the one that is on its way
	first.Again()       // which finds no slot
	refused("one came back", "a", ErrShareFull)
	if nobody, err := join(""); err != nil {
		t.Errorf("nobody's: %v", err)
	} else {
		refused("the line is full", "c", ErrLineFull)
		nobody.Leave(false)
	}
	for _, w := range []*Waiter{first, third, fourth, other} {
		w.Leave(false)
	}
	if p.Waiting() != 0 || len(p.line.tenants) != 0 {
		t.Errorf("%d wait at the end, of %v", p.Waiting(), p.line.tenants)
	}
	if line, share := p.Refused(); line != 1 || share != 3 {
		t.Errorf("%d found the line full and %d their share, want 1 and 3", line, share)
	}
}
