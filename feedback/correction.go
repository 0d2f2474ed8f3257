package feedback

import (
	"sync"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// window is how many pieces of evidence of one backend are looked back on.
	window = 8
	// lossBlocks is how many engine blocks must have been predicted for nothing to
	// mean a loss.
	lossBlocks = 8
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
	// Void: it found less, but another chain has confirmed something used earlier.
	Void
	// Stale: it found less, but was sent before the horizon last moved, and says
	// nothing that is not known.
	Stale
	// ShortfallMoved: a second standing claim from another chain moved the horizon.
	ShortfallMoved
	// LossMoved: two answers in a row from other chains found nothing.
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
// different chains to move the horizon, and a confirmation of something older
// outweighs them. It is safe for concurrent use; the zero value is ready.
type Corrector struct {
	mu        sync.Mutex
	past      [window]testimony // a ring, past[seen%window] is the next to be written
	seen      int               // pieces of evidence so far
	confirmed bool              // the backend ever confirmed a hit
	horizon   kvindex.Stamp
	movedAt   kvindex.Stamp // when the horizon last moved, in the index's time
}

// testimony is one past piece of evidence.
type testimony struct {
	chain      chain
	ruling     Ruling
	at         kvindex.Stamp // confirmed: last use vouched for; standing: last use claimed gone
	dispatched kvindex.Stamp
	nothing    bool // nothing was found of at least lossBlocks engine blocks
}

// Judge takes in a piece of evidence at now. When the ruling moves the horizon, the
// second result is the new one.
func (c *Corrector) Judge(claim Claim, now kvindex.Stamp) (Ruling, kvindex.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := testimony{chain: claim.Matched, dispatched: claim.Dispatched}
	switch {
	case claim.confirmed():
		c.confirmed = true
		t.ruling, t.at = Confirmed, claim.Deepest
	case claim.Dispatched <= c.movedAt:
		return Stale, c.horizon
	case !c.confirmed:
		t.ruling = Unproven
	default:
		t.at = claim.Missing
		t.nothing = claim.nothing() && claim.Predicted >= lossBlocks*claim.EngineBlock
		t.ruling = c.rule(&t)
	}
	switch t.ruling {
	case LossMoved:
		c.move(c.previous(1).dispatched, now)
	case ShortfallMoved:
		c.move(min(t.at, c.secondWitness(&t).at), now)
	default:
		c.remember(t)
	}
	return t.ruling, c.horizon
}

// rule decides about a shortfall. c.mu is held.
func (c *Corrector) rule(t *testimony) Ruling {
	if last := c.previous(1); t.nothing && last != nil && last.nothing && last.chain.other(t.chain) {
		return LossMoved
	}
	if c.contradicted(t) {
		return Void
	}
	if c.secondWitness(t) != nil {
		return ShortfallMoved
	}
	return Standing
}

// contradicted reports whether another chain has confirmed something used earlier than
// what t claims to be gone. c.mu is held.
func (c *Corrector) contradicted(t *testimony) bool {
	for i := 1; i <= window; i++ {
		p := c.previous(i)
		if p == nil {
			return false
		}
		if p.ruling == Confirmed && p.at < t.at && p.chain.other(t.chain) {
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
		if p.ruling == Standing && p.chain.other(t.chain) && !c.contradicted(p) {
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

// move raises the horizon. The claims made before are settled by it, and so are the
// confirmations of what it declares gone. c.mu is held.
func (c *Corrector) move(horizon, now kvindex.Stamp) {
	c.horizon = max(c.horizon, horizon)
	c.movedAt = now
	for i := 1; i <= window; i++ {
		p := c.previous(i)
		if p == nil {
			return
		}
		p.nothing = false
		if p.ruling != Confirmed || p.at <= c.horizon {
			p.ruling = Stale
		}
	}
}

// Raise moves the horizon for a reason other than evidence, such as a restart, and
// returns it.
func (c *Corrector) Raise(horizon, now kvindex.Stamp) kvindex.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(horizon, now)
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
