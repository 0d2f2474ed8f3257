package feedback

import (
	"slices"
	"sync"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// window is how many pieces of evidence of one backend are looked back on.
	window = 8
	// lossBlocks is how many engine blocks must have been predicted for nothing to
	// mean a loss.
	lossBlocks = 8
	// lossRow is how many answers in a row are looked at for a loss.
	lossRow = 3
	// lossDoubt is how much doubt in eviction such a row must add up to; lossShare is what
	// each of two must add to it; and lossRest is enough of three with nothing between them.
	// In replays of a noisy fleet the losses that happened mostly add up to more, and what was
	// not a loss to 0.5 and less, but for coincidences.
	lossDoubt = 0.85
	lossShare = 0.2
	lossRest  = 0.05
	// voidDoubt is how little eviction must explain a shortfall for it to be void whatever the
	// last pieces of evidence were: a scope that the engine renders otherwise goes on claiming
	// that what is there is gone.
	voidDoubt = 0.2
	// lateDoubt is how little eviction would have explained a miss for a hit to say nothing,
	// unless it refutes that the cache was lost: a head that all prompts share is found
	// again and again, a moment after it was last used, and would leave no room for what
	// has something to say.
	lateDoubt = 0.95
	// hopelessAfter is how many pieces of evidence without a single confirmation make
	// a backend one that does not cache, or whose cache cannot be followed.
	hopelessAfter = 8
)

// Ruling is what a piece of evidence comes to.
type Ruling uint8

// The rulings.
const (
	// Confirmed: the engine found about as much as predicted.
	Confirmed Ruling = iota
	// Standing: it found less; one claim alone moves nothing.
	Standing
	// Void: it found less, but another chain has confirmed something unused for as long, or
	// something unused for clearly longer was lately found.
	Void
	// Stale: it found less, but was sent before the horizon last moved, and claims no
	// more than is known.
	Stale
	// ShortfallMoved: a second standing claim from another chain moved the horizon.
	ShortfallMoved
	// LossMoved: answers in a row from other chains found nothing, which eviction does
	// not explain.
	LossMoved
	// Unproven: it found less, and the backend has never confirmed anything.
	Unproven
)

var rulingNames = [...]string{
	Confirmed: "confirmed", Standing: "standing", Void: "void", Stale: "stale",
	ShortfallMoved: "shortfall", LossMoved: "loss", Unproven: "unproven",
}

// String returns the ruling as metrics name it.
func (r Ruling) String() string {
	if int(r) < len(rulingNames) {
		return rulingNames[r]
	}
	return "unknown"
}

// Rulings returns all rulings, for metrics that exist from the start.
func Rulings() []Ruling {
	all := make([]Ruling, len(rulingNames))
	for i := range all {
		all[i] = Ruling(i)
	}
	return all
}

// Moved reports whether the ruling moves the horizon.
func (r Ruling) Moved() bool { return r == ShortfallMoved || r == LossMoved }

// Corrector judges the evidence of one backend and says where its horizon is: the
// moment before which nothing that was last used is believed to be cached any more.
//
// Engines evict what was least recently used, chain tails first, so one missing block
// tells about all older ones. But one witness may err (a prompt that the engine
// renders otherwise, a request that skipped the cache), so it takes two from
// different chains to move the horizon, and a confirmation of something unused for
// longer outweighs them. Ages are compared, not moments of last use: an engine goes on
// evicting, so what it held a minute ago proves nothing of what is as old as that was,
// and a minute more. It is safe for concurrent use; the zero value is ready.
type Corrector struct {
	mu        sync.Mutex
	past      [window]testimony // a ring, past[seen%window] is the next to be written
	seen      int               // pieces of evidence that were kept so far
	judged    int               // and of all
	confirmed bool              // the backend ever confirmed a hit
	retention retention
	horizon   kvindex.Stamp
	movedAt   kvindex.Stamp // when the horizon last moved, in the index's time
	lostAt    kvindex.Stamp // when the whole cache was last declared gone
}

// testimony is one past piece of evidence.
type testimony struct {
	chain      chain
	ruling     Ruling
	at         kvindex.Stamp // confirmed: last use vouched for; standing: last use claimed gone
	found      kvindex.Stamp // last use of the deepest block that was found; 0: none that matters
	dispatched kvindex.Stamp
	nth        int     // among all pieces of evidence
	nothing    bool    // nothing was found of at least lossBlocks engine blocks
	doubt      float64 // how little eviction explains that, 0..1
}

// unused is how long what the testimony speaks of had not been used when its request was
// sent.
func (t *testimony) unused() kvindex.Stamp { return t.dispatched - t.at }

// Judge takes in a piece of evidence at now. When the ruling moves the horizon, the
// second result is the new one.
func (c *Corrector) Judge(claim Claim, now kvindex.Stamp) (Ruling, kvindex.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judged++
	t := testimony{chain: claim.Matched, dispatched: claim.Dispatched, nth: c.judged}
	var horizon kvindex.Stamp
	switch {
	case claim.confirmed():
		t.ruling, t.at, t.found = Confirmed, claim.Deepest, claim.Deepest
		if c.confirmed && c.retention.doubt(t.unused(), t.dispatched) > lateDoubt && !c.refutes(&t) {
			return Confirmed, c.horizon
		}
		c.confirmed = true
		c.retention.confirmed(t.unused(), t.dispatched)
	case claim.Dispatched <= c.movedAt && claim.Missing <= c.horizon:
		return Stale, c.horizon
	case !c.confirmed:
		t.ruling = Unproven
	default:
		t.at, t.found = claim.Missing, claim.Found
		if claim.nothing() && claim.missed() >= lossBlocks*claim.EngineBlock && claim.Dispatched > c.lostAt {
			t.nothing, t.doubt = true, c.retention.doubt(t.unused(), t.dispatched)
		}
		t.ruling, horizon = c.rule(&t)
	}
	ruling := t.ruling
	switch ruling {
	case LossMoved:
		c.raise(horizon, now)
		return ruling, c.horizon
	case ShortfallMoved:
		c.move(horizon, now)
		if t.ruling = Stale; t.at > c.horizon {
			t.ruling = Standing // it claims more than the horizon grants
		}
	}
	c.remember(t)
	return ruling, c.horizon
}

// rule decides about a shortfall, and where the horizon should be if it moves.
// c.mu is held.
func (c *Corrector) rule(t *testimony) (ruling Ruling, horizon kvindex.Stamp) {
	t.ruling = Standing
	if c.contradicted(t) {
		t.ruling = Void
	}
	if t.nothing {
		if began := c.lossBegan(t); began > 0 {
			return LossMoved, began
		}
	}
	if t.ruling == Void {
		return Void, 0
	}
	if other := c.secondWitness(t); other != nil {
		return ShortfallMoved, min(t.at, other.at)
	}
	return Standing, 0
}

// lossBegan returns when the first of a row of answers was sent, of which t is the last,
// that found nothing and together say that the cache is lost; 0 where they do not.
// Eviction too makes answers find nothing, those of what is oldest. So it takes two or
// three that eviction explains badly; three with nothing between them need not be so bad.
// An answer sent since the row began that found something ends the row, unless that was
// used since too, and so has been computed anew. c.mu is held.
func (c *Corrector) lossBegan(t *testimony) kvindex.Stamp {
	row := append(make([]*testimony, 0, lossRow), t)
	found := make([]*testimony, 0, window)
	began, doubt, least := t.dispatched, t.doubt, t.doubt
	for i := 1; i <= window && len(row) < lossRow; i++ {
		p := c.previous(i)
		if p == nil {
			return 0
		}
		if !p.nothing {
			found = append(found, p)
			continue
		}
		if slices.ContainsFunc(row, func(q *testimony) bool { return !p.chain.other(q.chain) }) {
			return 0
		}
		row = append(row, p)
		began, doubt, least = min(began, p.dispatched), doubt+p.doubt, min(least, p.doubt)
		if slices.ContainsFunc(found, func(f *testimony) bool { return f.speaksOf(began) }) {
			return 0
		}
		three := len(row) == lossRow
		if doubt >= lossDoubt && (three || least >= lossShare) || three && doubt >= lossRest && len(found) == 0 {
			return p.dispatched
		}
	}
	return 0
}

// speaksOf reports whether the testimony shows that the cache was not lost between a moment
// and when its request was sent: it found what had been used before.
func (t *testimony) speaksOf(began kvindex.Stamp) bool {
	return t.found > 0 && t.found < began && t.dispatched >= began
}

// refutes reports whether a confirmation shows that an answer which found nothing was no
// sign of a loss. c.mu is held.
func (c *Corrector) refutes(t *testimony) bool {
	for i := 1; i <= min(c.seen, window); i++ {
		if p := c.previous(i); p.nothing && t.speaksOf(p.dispatched) {
			return true
		}
	}
	return false
}

// contradicted reports whether another chain has confirmed something that had been unused
// for as long as what t claims to be gone, or anything unused for clearly longer was lately
// found. c.mu is held.
func (c *Corrector) contradicted(t *testimony) bool {
	if c.retention.doubt(t.unused(), t.dispatched) > voidDoubt {
		return true
	}
	for i := 1; i <= window; i++ {
		p := c.previous(i)
		if p == nil {
			return false
		}
		if p.ruling == Confirmed && p.unused() >= t.unused() && p.chain.other(t.chain) {
			return true
		}
	}
	return false
}

// secondWitness returns a past claim of another chain that still stands. c.mu is held.
func (c *Corrector) secondWitness(t *testimony) *testimony {
	for i := 1; i <= window; i++ {
		p := c.previous(i)
		if p == nil {
			return nil
		}
		if p.ruling == Standing && t.nth-p.nth <= window && p.chain.other(t.chain) && !c.contradicted(p) {
			return p
		}
	}
	return nil
}

// previous returns the i-th last piece of evidence, nil when there is none.
// c.mu is held.
func (c *Corrector) previous(i int) *testimony {
	if i > c.seen || i > window {
		return nil
	}
	return &c.past[(c.seen-i)%window]
}

// remember keeps a piece of evidence. c.mu is held.
func (c *Corrector) remember(t testimony) {
	slot := &c.past[c.seen%window]
	t.chain = t.chain.copyInto(slot.chain)
	*slot = t
	c.seen++
}

// move puts the horizon where two witnesses have it. Claims that reach no further are
// settled by it, and so are the confirmations of what it declares gone. c.mu is held.
func (c *Corrector) move(horizon, now kvindex.Stamp) {
	c.horizon = max(c.horizon, horizon)
	c.movedAt = now
	c.retention.cut(now - c.horizon)
	for i := 1; i <= min(c.seen, window); i++ {
		if p := c.previous(i); p.at <= c.horizon && (p.ruling == Confirmed || p.ruling == Standing) {
			p.ruling = Stale
		}
	}
}

// raise moves the horizon because the whole cache is gone, which settles all claims made
// before. c.mu is held.
func (c *Corrector) raise(horizon, now kvindex.Stamp) {
	c.move(horizon, now)
	c.lostAt = now
	for i := 1; i <= min(c.seen, window); i++ {
		p := c.previous(i)
		p.nothing = false
		if p.ruling != Confirmed {
			p.ruling = Stale
		}
	}
}

// Follow moves the horizon to where another router, which saw other answers of the same
// backend, has it, and returns it.
func (c *Corrector) Follow(horizon, now kvindex.Stamp) kvindex.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(horizon, now)
	return c.horizon
}

// Raise moves the horizon for a reason other than evidence, such as a restart, and
// returns it.
func (c *Corrector) Raise(horizon, now kvindex.Stamp) kvindex.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raise(horizon, now)
	return c.horizon
}

// Horizon returns the horizon; 0 before it ever moved.
func (c *Corrector) Horizon() kvindex.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.horizon
}

// Hopeless reports whether the backend has had every chance to confirm a hit and never
// did: prefix caching is off, the model's cache cannot be followed, or several engines
// answer behind one URL.
func (c *Corrector) Hopeless() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.confirmed && c.seen >= hopelessAfter
}
