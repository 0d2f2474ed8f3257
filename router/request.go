package router

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/kvindex"
)

// Request is what a decision needs to know of a request. The router keeps Blocks
// until the decision is completed: the caller must not change them before.
type Request struct {
	// Now is the moment of the decision.
	Now time.Time
	// Random is a uniformly random value, for the strategies that need one.
	Random uint64
	// Pool is where to route, as [Router.Resolve] gave it.
	Pool *Pool
	// Model is the served name of the model or adapter; backends that say they do
	// not serve it take no part.
	Model string

	// Adapter says that Model is a LoRA adapter that any engine may be asked to load. Those
	// that say that they have it come first.
	Adapter bool

	// Blocks are the block keys of the prompt; none when it has no usable prefix.
	Blocks []kvindex.Key
	// StreamBytes and HashedBytes are the length of the whole key stream and of the
	// part that Blocks stand for, in bytes.
	StreamBytes, HashedBytes int
	// Scope is the seed of the prompt's scope, by which predictions are calibrated.
	Scope kvindex.Key
	// Prefix names the hashed part as a whole, 0 when there is none.
	Prefix kvindex.Key
	// Rendezvous is the key by which routers agree before they know anything,
	// meaningful where HasPrefix is set.
	Rendezvous kvindex.Key
	HasPrefix  bool

	// Route is the kind of endpoint, such as "chat": engines report cached tokens on
	// some and not on others.
	Route string
	// NoEvidence says that the reported cached tokens will say nothing about the
	// cache: several answers or prompts, prompt_logprobs, truncation and the like.
	NoEvidence bool
	// Binary says that the prompt has parts whose tokens nobody can count.
	Binary bool
	// AnyRank says that the engine chooses among its data-parallel ranks by itself
	// whatever it is told, so that the answer says nothing about the rank.
	AnyRank bool

	// N is how many answers are asked for, which is what the request counts
	// in-flight; 0 means 1.
	N int
	// Streamed says that the first token will be seen ([Router.FirstToken]).
	Streamed bool

	// Tried are the backends that failed this request already; they take no part.
	Tried []*backends.Backend
	// Pin is the id of the backend that should take the request, if it can.
	Pin string
	// PinRequired makes the request fail rather than go elsewhere.
	PinRequired bool
	// Session, where it is not 0, leads the request to the backend that had the session's
	// requests before, if that can take it, and keeps the session where this request goes.
	Session PinKey
	// Alternatives is how many backends to name that would take the request next, if one
	// after the other failed ([Decision.Alternatives]).
	Alternatives int
	// Waited says that the request comes out of the pool's waiting line.
	Waited bool
}

func (r *Request) tried(b *backends.Backend) bool { return slices.Contains(r.Tried, b) }
