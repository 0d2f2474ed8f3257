package intake

import (
	"errors"

	"github.com/warmroute/warmroute/router"
)

// ErrNoModel says that a request names no model and there is more than one.
var ErrNoModel = errors.New("model is missing: name one of those that /v1/models lists")

// ResolveIn finds what the engines of a pool call a model; none means the only one there
// is. The error is [ErrNoModel], or one of [router.Pool.Resolve].
func ResolveIn(pool *router.Pool, model string) (router.Target, error) {
	target, err := pool.Resolve(model)
	if _, unknown := errors.AsType[*router.UnknownModelError](err); unknown && model == "" {
		err = ErrNoModel
	}
	return target, err
}

// Resolve finds where the requests for a model go. Where it is optional, none means
// the only model there is. The error is [ErrNoModel], or one of [router.Router.Resolve].
func Resolve(r *router.Router, model string, optional bool) (router.Target, error) {
	if model == "" && optional {
		if pools := r.Pools(); len(pools) == 1 {
			return ResolveIn(pools[0], "")
		}
		if all := r.Models(); len(all) == 1 {
			return router.Target{Pool: all[0].Pool, Model: all[0].Served}, nil
		}
	}
	if model == "" {
		return router.Target{}, ErrNoModel
	}
	return r.Resolve(model)
}
