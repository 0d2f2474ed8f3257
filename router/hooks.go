package router

import (
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// Hooks are told what happens. Every field may be nil. They are called on the
// request path: they must be quick and must not call back into the router.
type Hooks struct {
	// Decided is called when a backend has been chosen.
	Decided func(d *Decision)
	// Completed is called when a decision's outcome is in.
	Completed func(d *Decision, o feedback.Outcome)
	// Ejected is called when failures have taken a backend out of rotation.
	Ejected func(p *Pool, b *backends.Backend, until time.Time)
}

func (h Hooks) decided(d *Decision) {
	if h.Decided != nil {
		h.Decided(d)
	}
}

func (h Hooks) completed(d *Decision, o feedback.Outcome) {
	if h.Completed != nil {
		h.Completed(d, o)
	}
}

func (h Hooks) ejected(p *Pool, b *backends.Backend, until time.Time) {
	if h.Ejected != nil {
		h.Ejected(p, b, until)
	}
}
