package discovery

import (
	"context"

	"github.com/warmroute/warmroute/backends"
)

// Source knows a part of the backends.
type Source interface {
	// Run calls tell with the first answer as soon as there is one, with each that
	// differs from the one before, and from time to time with the same one, to say that
	// it still holds. It blocks until ctx ends. By then tell is not called any more, and
	// what Run has started has ended. That ctx ends is not told as an error.
	Run(ctx context.Context, tell Tell)
}

// Tell takes an answer. It is called from one goroutine at a time.
//
// Without an error, list is every backend that there is now; an empty list, or nil, says
// that there is none. With an error and nil, nothing could be found out, and the answer
// before holds on. With an error and a list, a part could not be found out, for which the
// list holds what was last known.
type Tell func(list []backends.Spec, err error)

// Static is a source that always says the same, until [Discovery.Set].
type Static []backends.Spec

var _ Source = Static(nil)

// Run implements [Source].
func (s Static) Run(ctx context.Context, tell Tell) {
	tell(s, nil)
	<-ctx.Done()
}
