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
	// Returned is called when the first request has succeeded after an ejection.
	Returned func(p *Pool, b *backends.Backend)
	// Judged is called when an answer has confirmed or contradicted a prediction.
	Judged func(d *Decision, claim feedback.Claim, ruling feedback.Ruling)
	// HorizonMoved is called when entries of a backend were forgotten, and why.
	HorizonMoved func(p *Pool, b *backends.Backend, cause string, forgotten int)
	// Accounted is called when an answered prompt's tokens have been explained.
	Accounted func(d *Decision, a feedback.Account)
	// Pinned is called when a session, or an answer that an engine stores, has come to belong
	// to a backend, with its id, or to none any more, and now and then while that goes on.
	Pinned func(p *Pool, key PinKey, backend string, at time.Time)
	// Hopeless is called when a backend has had every chance to confirm a hit and
	// never did, and when it does after all.
	Hopeless func(p *Pool, b *backends.Backend, hopeless bool)
	// Silent is called when a backend turns out to answer without reporting cached
	// tokens, and when it does report after all.
	Silent func(p *Pool, b *backends.Backend, silent bool)
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

func (h Hooks) pinned(p *Pool, key PinKey, backend string, at time.Time) {
	if h.Pinned != nil {
		h.Pinned(p, key, backend, at)
	}
}

func (h Hooks) ejected(p *Pool, b *backends.Backend, until time.Time) {
	if h.Ejected != nil {
		h.Ejected(p, b, until)
	}
}

func (h Hooks) returned(p *Pool, b *backends.Backend) {
	if h.Returned != nil {
		h.Returned(p, b)
	}
}

func (h Hooks) judged(d *Decision, claim feedback.Claim, ruling feedback.Ruling) {
	if h.Judged != nil {
		h.Judged(d, claim, ruling)
	}
}

func (h Hooks) horizonMoved(p *Pool, b *backends.Backend, cause string, forgotten int) {
	if h.HorizonMoved != nil {
		h.HorizonMoved(p, b, cause, forgotten)
	}
}

func (h Hooks) accounted(d *Decision, a feedback.Account) {
	if h.Accounted != nil {
		h.Accounted(d, a)
	}
}

func (h Hooks) hopeless(p *Pool, b *backends.Backend, hopeless bool) {
	if h.Hopeless != nil {
		h.Hopeless(p, b, hopeless)
	}
}

func (h Hooks) silent(p *Pool, b *backends.Backend, silent bool) {
	if h.Silent != nil {
		h.Silent(p, b, silent)
	}
}
