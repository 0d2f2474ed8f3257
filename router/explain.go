package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/backends"
)

// Explanation is what a decision would rest on if it were made now.
type Explanation struct {
	// Strategy is the pool's.
	Strategy string
	// Backend is who would be taken, Reason why, and Why the same in a sentence. Without
	// one, Err is what [Router.Route] would return.
	Backend *backends.Backend
	Reason  Reason
	Why     string
	Err     error
	// PromptTokens estimates the prompt's length, in tokens.
	PromptTokens int
	// Candidates are all backends of the pool: those that would be taken, in order, then
	// those that would not, then those that take no part, each by id.
	Candidates []CandidateReport
}

// CandidateReport is one backend as a decision sees it.
type CandidateReport struct {
	Backend *backends.Backend
	State   backends.State
	// Excluded says why it takes no part, empty when it does. The rest is zero then.
	Excluded string
	// Place is its place in the order, from 1; 0 when it would not be taken. Reason is why
	// it would be taken there: each place is a choice among those that are left.
	Place  int
	Reason Reason
	// MatchedBlocks are the leading blocks it is thought to hold, MatchedTokens the same in
	// tokens, and PredictedCached what its engine is expected to report of them.
	MatchedBlocks, MatchedTokens, PredictedCached int
	// Queued is the tokens that it has still to prefill, InFlight and Limit its load and
	// its threshold. Full says that it is at that, or far above the mean.
	Queued, InFlight, Limit int
	Full                    bool
	// Cost is what the request would wait for and take there, in tokens of prefill.
	Cost float64
}

// Explain says what [Router.Route] would decide, and on what grounds, and changes
// nothing.
func (r *Router) Explain(req *Request) Explanation {
	v := r.views.Get().(*view)
	defer r.views.Put(v)
	defer func() { v.request = nil }()
	e := Explanation{Strategy: req.Pool.config.Load().Strategy}
	places := make(map[*backends.Backend]*CandidateReport)
	for _, m := range *req.Pool.members.Load() {
		b := m.backend
		e.Candidates = append(e.Candidates, CandidateReport{Backend: b, State: b.State(req.Now)})
	}
	for i := range e.Candidates {
		places[e.Candidates[i].Backend] = &e.Candidates[i]
	}
	if e.Err = r.open(v, req); e.Err != nil && len(v.candidates) == 0 {
		exclude(v, &e)
		return e
	}
	e.Strategy, e.PromptTokens = v.config.Strategy, v.prompt
	for i := range v.candidates {
		c := &v.candidates[i]
		if report := places[c.member.backend]; report != nil { // else it has just joined
			report.fill(v, c)
		}
	}
	exclude(v, &e)
	if e.Err == nil {
		e.Err = v.rank(req.Pool, len(v.candidates), func(place int, c choice) {
			if place == 1 {
				d := Decision{Pool: req.Pool, Strategy: e.Strategy, At: req.Now}
				d.describe(v, c)
				e.Backend, e.Reason, e.Why = d.Backend, d.Reason, d.Explain()
			}
			if report := places[c.candidate.member.backend]; report != nil {
				report.Place, report.Reason = place, c.reason
			}
		})
	}
	slices.SortFunc(e.Candidates, func(a, b CandidateReport) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Backend.ID, b.Backend.ID))
	})
	return e
}

// next names up to n backends in the order in which they would be taken if the chosen one
// failed. They are gone from the view then.
func (v *view) next(p *Pool, chosen *backends.Backend, n int) []*backends.Backend {
	v.without(chosen)
	if n = min(n, len(v.candidates)); n == 0 {
		return nil
	}
	next := make([]*backends.Backend, 0, n)
	_ = v.rank(p, n, func(_ int, c choice) { // nobody is an answer too
		next = append(next, c.candidate.member.backend)
	})
	return next
}

// rank tells who would be taken first, who next if that failed, and so on, up to n. The
// candidates told of are gone from the view. The error says why there is not even a first.
func (v *view) rank(p *Pool, n int, tell func(place int, c choice)) error {
	for place := 1; place <= n && len(v.candidates) > 0; place++ {
		c, err := v.choose(p)
		if err != nil {
			if place > 1 {
				return nil
			}
			return err
		}
		tell(place, c)
		v.without(c.candidate.member.backend)
	}
	return nil
}

// fill takes over what the view knows of a candidate.
func (c *CandidateReport) fill(v *view, from *candidate) {
	c.MatchedBlocks, c.MatchedTokens, c.PredictedCached = from.match, from.held, from.cached
	c.Queued, c.InFlight, c.Limit, c.Full, c.Cost = from.queued, from.inFlight, from.limit, from.full, v.cost(from)
}

// exclude says of the backends that are no candidates of the view why they are none.
func exclude(v *view, e *Explanation) {
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if slices.ContainsFunc(v.candidates, func(in candidate) bool { return in.member.backend == c.Backend }) {
			continue
		}
		switch {
		case !v.serves(c.Backend):
			c.Excluded = "does not serve the model"
		case v.request.tried(c.Backend):
			c.Excluded = "failed this request"
		default:
			c.Excluded = c.State.String()
		}
	}
}

// rank orders reports: places first, those without one next, the excluded last.
func (c *CandidateReport) rank() int {
	switch {
	case c.Excluded != "":
		return 1<<31 + 1
	case c.Place == 0:
		return 1 << 31
	}
	return c.Place
}
