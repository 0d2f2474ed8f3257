package replay

import (
	"math"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// candidate is an engine in rotation, as a router can know it when a request arrives.
type candidate struct {
	node *node
	// share is the part of the prompt that the router's index has of it, 0..1.
	share float64
	// affinity is its place in the prefix's own order, the highest first, whatever its
	// load and cache.
	affinity uint64
	// inFlight are its requests in flight, waiting those of them without a first token.
	inFlight, waiting int
	// backlog estimates the tokens that it has still to prefill, nothing of any prompt
	// being cached.
	backlog int
	// draw is a random value that settles ties, the lowest first.
	draw uint64
}

// candidates are the engines in rotation. For a prompt without a usable prefix their order
// of affinity is random.
func (f *Fleet) candidates(fl *flight, req *router.Request) []candidate {
	depths := make([]int, fl.via.index.Holders())
	fl.via.index.Match(fl.keys, depths)
	prefix := req.Random
	if req.HasPrefix {
		prefix = uint64(req.Rendezvous)
	}
	var all []candidate
	for i, status := range fl.via.pool.Status(req.Now) { // in the order of nodes
		if status.State != backends.Up {
			continue
		}
		n := f.nodes[i]
		c := candidate{
			node:     n,
			share:    ratio(depths[n.holder]*f.config.Router.BlockBytes, fl.stream),
			affinity: workload.Mix(prefix ^ workload.Mix(uint64(n.number))),
			inFlight: status.InFlight,
			draw:     workload.Mix(req.Random ^ uint64(n.number)),
		}
		waiting := fl.via.allUnanswered(n)
		c.waiting, c.backlog = waiting.requests, waiting.backlog.Left(req.Now, status.PrefillRate)
		all = append(all, c)
	}
	return all
}

// unanswered are requests on one engine without a first token: how many, and the tokens of
// their whole prompts.
type unanswered struct {
	requests int
	backlog  feedback.Backlog
}

// unanswered are those that the router itself sent.
func (v *replica) unanswered(n *node) unanswered {
	u := unanswered{backlog: feedback.Backlog{Progress: clock(v.lastFirst[n.number])}}
	for _, fl := range n.flights {
		if fl.via == v && !fl.first {
			u.requests++
			u.backlog = u.backlog.Add(feedback.Backlog{Tokens: int64(fl.prompt), Began: clock(fl.at)})
		}
	}
	return u
}

// allUnanswered are those of all routers, as far as this one knows: of the others what they
// last told.
func (v *replica) allUnanswered(n *node) unanswered {
	all := v.unanswered(n)
	for _, of := range v.heard {
		if of.unanswered != nil {
			all.requests += of.unanswered[n.number].requests
			all.backlog = all.backlog.Add(of.unanswered[n.number].backlog)
		}
	}
	return all
}

// loadBound is how much of the mean load an engine may have, where load is bounded.
const loadBound = 1.25

// withinBound returns the candidates that, this request included, have no more than
// loadBound × the mean in flight. There always is one.
func withinBound(all []candidate) []candidate {
	total := 1
	for _, c := range all {
		total += c.inFlight
	}
	bound := int(math.Ceil(loadBound * float64(total) / float64(len(all))))
	var within []candidate
	for _, c := range all {
		if c.inFlight+1 <= bound {
			within = append(within, c)
		}
	}
	return within
}
