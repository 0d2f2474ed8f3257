package router

import (
	"math"
	"slices"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// inFlightTokens is what one request in flight costs, in tokens of prefill: decode
// steps slow a prefill down. Ten times as much, as was held for right before the prefill
// rate was learned under load, sends conversations away from what they have cached: on
// chat of 17 requests a second LEAST_EXPECTED_TTFT hits 79.3 % then instead of 83.5 %.
const inFlightTokens = 30

// recentFactor is how many times the mean of recent assignments is clearly more than it.
const recentFactor = 1.12

// spreadSlack is how many requests more the holders of a common head must have in flight.
const spreadSlack = 1

// loadSlack is how many requests a backend may have above load_factor × the mean.
const loadSlack = 4

// candidate is one backend that can take the request, as it was when the decision
// was made.
type candidate struct {
	member *member
	// match is how many leading blocks it is thought to hold.
	match int
	// reach is the match, or the common head where that is longer and those who hold it are
	// busier: what it holds, or will hold for everybody once it has computed it. common is
	// what of that head would be cached then, in tokens; 0 where it holds as much.
	reach, common int
	// held is the match in tokens; cached and uncached are the prompt's tokens
	// predicted cached there, which what is known of the backend may lower, or not. A common
	// head that it has still to compute does not count as uncached: that is done once.
	held, cached, uncached int
	// queued estimates the tokens it has still to prefill.
	queued int
	// inFlight and limit are its load and its threshold at this moment.
	inFlight, limit int
	// scale is the mean weight ÷ its weight: load counts more on a smaller box.
	scale float64
	// full is rule 1: at the threshold, or far above the mean.
	full bool
}

// load is the candidate's in-flight as if all backends were of one size.
func (c *candidate) load() float64 { return float64(c.inFlight) * c.scale }

// view is what a strategy sees of a pool: the candidates and the request. It is
// reused from one decision to the next.
type view struct {
	config     *Config
	request    *Request
	candidates []candidate
	prompt     int     // estimated tokens of the prompt
	mean       float64 // load of a candidate
	adapter    bool    // the prompt is one of a LoRA adapter
	leastBad   bool
	head       int  // length of a common head of this prompt, in blocks; 0: it has none
	unshared   bool // routers have to agree without hearing of each other
	bounded    bool // bound holds
	bound      float64

	depths []int
}

// look fills the view for a request; without any candidate it says what kept the
// backends out.
func (v *view) look(p *Pool, req *Request) *NoBackendError {
	v.config, v.request, v.bounded = p.config.Load(), req, false
	members := *p.members.Load()
	v.identify(members)
	v.candidates = v.candidates[:0]
	for _, m := range members {
		if v.takesPart(m) && m.backend.State(req.Now) == backends.Up {
			v.candidates = append(v.candidates, candidate{member: m})
		}
	}
	v.leastBad = len(v.candidates) == 0
	if v.leastBad {
		worst := v.returnsFirst(members)
		if worst == nil {
			return v.nobody(p, members)
		}
		v.candidates = append(v.candidates, candidate{member: worst})
	}
	v.measure(p)
	return nil
}

// identify finds out whether the prompt is one of a LoRA adapter.
func (v *view) identify(members []*member) {
	v.adapter = v.request.Adapter ||
		slices.ContainsFunc(members, func(m *member) bool { return m.backend.ServesAdapter(v.request.Model) })
}

// takesPart reports whether a member may take the request, its health aside.
func (v *view) takesPart(m *member) bool { return v.serves(m.backend) && !v.request.tried(m.backend) }

// serves reports whether a backend has the request's model, or may load it: an engine that
// loads adapters when it is asked for them lists no more than it was asked for.
func (v *view) serves(b *backends.Backend) bool {
	return v.request.Adapter || b.Serves(v.request.Model)
}

// returnsFirst is the least bad of the members that are ejected or cooling, or else do not
// answer probes: trying it beats failing closed. Nil when there is none.
func (v *view) returnsFirst(members []*member) *member {
	var first, lost *member
	var at time.Time
	for _, m := range members {
		if !v.takesPart(m) {
			continue
		}
		switch m.backend.State(v.request.Now) {
		case backends.Ejected, backends.Cooling:
		case backends.Unreachable:
			if m.backend.OutOfTouch() && (lost == nil || m.backend.InFlight() < lost.backend.InFlight()) {
				lost = m
			}
			continue
		case backends.Up, backends.Draining, backends.Asleep:
			continue
		}
		if back := m.backend.Retry(v.request.Now); first == nil || back.Before(at) {
			first, at = m, back
		}
	}
	if first == nil {
		return lost
	}
	return first
}

// nobody says why no member can take the request.
func (v *view) nobody(p *Pool, members []*member) *NoBackendError {
	none := &NoBackendError{Pool: p.name, Model: v.request.Model, Total: len(members), RetryAfter: retryNoBackend}
	for _, m := range members {
		switch state := m.backend.State(v.request.Now); {
		case !v.serves(m.backend):
			none.OtherModel++
		case state == backends.Unreachable:
			none.Unreachable++
		case state == backends.Asleep:
			none.Asleep++
		case state == backends.Draining:
			none.Draining++
		case v.request.tried(m.backend):
			none.Tried++
		}
	}
	return none
}

// measure fills in match, prediction and load of every candidate.
func (v *view) measure(p *Pool) {
	req := v.request
	bytesPerToken := p.units.BytesPerToken()
	v.prompt = feedback.NewPredictor(bytesPerToken, 0).Tokens(req.StreamBytes)
	if n := p.index.Holders(); cap(v.depths) < n {
		v.depths = make([]int, n+n/2)
	}
	v.depths = v.depths[:cap(v.depths)]
	p.index.Match(req.Blocks, v.depths)
	head := 0
	for i := range v.candidates {
		head = max(head, v.candidates[i].member.head.of(req.Blocks))
	}
	v.head = head
	for i := range v.candidates {
		c := &v.candidates[i]
		if h := int(c.member.holder); h < len(v.depths) {
			c.match = v.depths[h]
		}
		if c.match > 0 {
			v.predict(c, bytesPerToken)
		}
		c.common = v.common(c, head, bytesPerToken)
		c.queued = c.member.queued(req.Now)
		c.limit = p.limit(c.member, v.config, req.Now)
	}
	v.weigh()
	v.refresh()
}

// weigh puts every candidate's weight against the mean.
func (v *view) weigh() {
	mean := 0.0
	for i := range v.candidates {
		mean += v.candidates[i].member.backend.Weight()
	}
	mean /= float64(len(v.candidates))
	for i := range v.candidates {
		c := &v.candidates[i]
		c.scale = mean / c.member.backend.Weight()
	}
}

// predict fills in how many of the prompt's tokens a candidate holds and is expected to
// have cached. A match that reaches the PrefixLength cut may go on beyond it, as far as
// answers in this scope have shown.
func (v *view) predict(c *candidate, bytesPerToken float64) {
	predictor := feedback.NewPredictor(bytesPerToken, c.member.blockTokens())
	c.held = predictor.Cached(c.match*v.config.BlockBytes, v.prompt)
	if req := v.request; req.HashedBytes < req.StreamBytes && c.match == len(req.Blocks) && !c.member.hopeless.Load() {
		if share, known := c.member.calibration.CutShare(req.Scope); known {
			c.cached = int(share * float64(v.prompt))
			c.held = max(c.held, c.cached)
			return
		}
	}
	c.cached = int(c.member.factor(v.request.Scope) * float64(c.held))
}

// common is how many tokens of a common head a candidate will have cached once it has
// computed it; 0 where it holds as much already.
func (v *view) common(c *candidate, head int, bytesPerToken float64) int {
	if c.match >= head {
		return 0
	}
	tokens := feedback.NewPredictor(bytesPerToken, c.member.blockTokens()).Cached(head*v.config.BlockBytes, v.prompt)
	return int(c.member.factor(v.request.Scope) * float64(tokens))
}

// refresh reads the load again and decides who is full.
func (v *view) refresh() {
	v.mean = 0
	for i := range v.candidates {
		c := &v.candidates[i]
		c.inFlight = c.member.backend.InFlight()
		v.mean += c.load()
	}
	v.mean /= float64(len(v.candidates))
	bound := math.Inf(1)
	if v.config.LoadFactor > 0 {
		bound = v.config.LoadFactor*v.mean + loadSlack
	}
	for i := range v.candidates {
		c := &v.candidates[i]
		c.full = !v.fits(c) || c.load() > bound
	}
	v.spread()
}

// spread says what of the prompt each candidate has to compute. A common head counts as
// held where those who hold it are busier. While one of them is not, or nobody holds it,
// there is no reason to compute it in many places.
func (v *view) spread() {
	idlest, held := math.Inf(1), false
	for i := range v.candidates {
		if c := &v.candidates[i]; c.match >= v.head {
			idlest, held = min(idlest, c.load()), true
		}
	}
	for i := range v.candidates {
		c := &v.candidates[i]
		c.reach, c.uncached = c.match, v.prompt-c.cached
		if held && c.match < v.head && idlest > c.load()+spreadSlack {
			c.reach, c.uncached = v.head, v.prompt-max(c.cached, c.common)
		}
	}
}

// fits reports whether the request fits under the candidate's threshold: as
// [backends.Backend.Acquire] decides it.
func (v *view) fits(c *candidate) bool {
	n := max(v.request.N, 1)
	return c.inFlight == 0 && c.limit > 0 || c.inFlight+n <= c.limit
}

// cost estimates what the request would wait for and take on a candidate, in tokens
// of prefill.
func (v *view) cost(c *candidate) float64 {
	return v.work(c, v.config.W) + inFlightTokens*c.load()
}

// work is weight × the prompt's uncached tokens, and the tokens queued before them.
func (v *view) work(c *candidate, weight float64) float64 {
	return (weight*float64(c.uncached) + float64(c.queued)) * c.scale
}

// hashedBlocks is the length of the hashed prompt in blocks.
func (v *view) hashedBlocks() float64 {
	return float64(v.request.HashedBytes) / float64(v.config.BlockBytes)
}

// available is the best match on any candidate, in blocks and in tokens.
func (v *view) available() (match, held int) {
	for i := range v.candidates {
		match = max(match, v.candidates[i].match)
		held = max(held, v.candidates[i].held)
	}
	return match, held
}

// saturation says that everybody who could take the request is full.
func (v *view) saturation(p *Pool) *SaturatedError {
	return &SaturatedError{
		Pool:       p.name,
		Backends:   len(v.candidates),
		Wait:       v.config.OnSaturation == Queue,
		RetryAfter: retrySaturated,
	}
}

// best returns the candidate that comes first by less among those that pass keep;
// nil when none passes.
func (v *view) best(keep func(*candidate) bool, less func(a, b *candidate) bool) *candidate {
	var best *candidate
	for i := range v.candidates {
		c := &v.candidates[i]
		if keep(c) && (best == nil || less(c, best)) {
			best = c
		}
	}
	return best
}

// cheapest returns the candidate of the smallest cost among those that pass keep.
func (v *view) cheapest(keep func(*candidate) bool) *candidate {
	return v.best(keep, func(a, b *candidate) bool {
		if costA, costB := v.cost(a), v.cost(b); costA != costB {
			return costA < costB
		}
		return v.settle(a, b)
	})
}

// fewestInFlight returns the least loaded candidate among those that pass keep.
func (v *view) fewestInFlight(keep func(*candidate) bool) *candidate {
	return v.best(keep, func(a, b *candidate) bool {
		if loadA, loadB := a.load(), b.load(); loadA != loadB {
			return loadA < loadB
		}
		return v.settle(a, b)
	})
}

// settle breaks a tie: by rendezvous order where the prompt has a prefix, so that
// replicas agree, and a router that was started anew finds what it sent where; else by
// recent assignments, so that it spreads. A backend that has had clearly more than its
// part lately comes after those that have not, unless routers have to agree unheard.
func (v *view) settle(a, b *candidate) bool {
	switch recentA, recentB := v.recent(a), v.recent(b); {
	case !v.request.HasPrefix:
		if recentA != recentB {
			return recentA < recentB
		}
	case !v.unshared:
		bound := v.recentBound()
		if aheadA, aheadB := recentA > bound, recentB > bound; aheadA != aheadB {
			return aheadB
		}
	}
	return v.rendezvousLess(a, b)
}

// recent is how many requests a candidate has lately had, for its weight, as a base-2
// logarithm of which only differences mean anything.
func (v *view) recent(c *candidate) float64 { return c.member.recent.level() + math.Log2(c.scale) }

// recentBound is what is clearly more than the mean.
func (v *view) recentBound() float64 {
	if v.bounded {
		return v.bound
	}
	most, sum := math.Inf(-1), 0.0
	for i := range v.candidates {
		most = max(most, v.recent(&v.candidates[i]))
	}
	if math.IsInf(most, -1) {
		return most
	}
	for i := range v.candidates {
		sum += math.Exp2(v.recent(&v.candidates[i]) - most)
	}
	v.bounded, v.bound = true, most+math.Log2(recentFactor*sum/float64(len(v.candidates)))
	return v.bound
}

// lessLoaded orders by in-flight, then by recent assignments, then by rendezvous.
func (v *view) lessLoaded(a, b *candidate) bool {
	if loadA, loadB := a.load(), b.load(); loadA != loadB {
		return loadA < loadB
	}
	if recentA, recentB := a.member.recent.level(), b.member.recent.level(); recentA != recentB {
		return recentA < recentB
	}
	return v.rendezvousLess(a, b)
}

// rendezvousLess orders by rendezvous score for the request's rendezvous key.
func (v *view) rendezvousLess(a, b *candidate) bool {
	return v.higher(a, b, v.request.Rendezvous, true)
}

// highestScore orders by rendezvous score for a key.
func (v *view) highestScore(key kvindex.Key, weighted bool) func(a, b *candidate) bool {
	return func(a, b *candidate) bool { return v.higher(a, b, key, weighted) }
}

// higher reports whether a's rendezvous score comes first. Where even the scores are
// equal the id decides, so that the order of candidates never matters.
func (v *view) higher(a, b *candidate, key kvindex.Key, weighted bool) bool {
	weightA, weightB := 1.0, 1.0
	if weighted {
		weightA, weightB = a.member.backend.Weight(), b.member.backend.Weight()
	}
	scoreA, scoreB := rendezvous(key, a.member.hash, weightA), rendezvous(key, b.member.hash, weightB)
	if scoreA != scoreB {
		return scoreA > scoreB
	}
	return a.member.backend.ID < b.member.backend.ID
}

func anyone(*candidate) bool    { return true }
func notFull(c *candidate) bool { return !c.full }
