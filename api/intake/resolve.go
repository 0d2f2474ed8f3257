package intake

import (
	"errors"

	"github.com/warmroute/warmroute/router"
)

// ErrNoModel says that a request names no model and there is more than one.
var ErrNoModel = errors.New("model is missing: name one of those that /v1/models lists")

// Resolve finds where the requests for a model go. Where it is optional, none means
// the only model there is. The error is [ErrNoModel], or one of [router.Router.Resolve].
func Resolve(r *router.Router, model string, optional bool) (router.Target, error) {
	if model == "" && optional {
		if all := r.Models(); len(all) == 1 {
			return router.Target{Pool: all[0].Pool, Model: all[0].Served}, nil
		}
	}
	if model == "" {
		return router.Target{}, ErrNoModel
	}
	return r.Resolve(model)
}
