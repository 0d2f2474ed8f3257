package redisindex

import (
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// promiseFor is how long a promise is believed that is neither kept nor withdrawn: longer
	// than a prompt takes to be prefilled. Should it be kept later, it is told anew.
	promiseFor = 2 * time.Minute
	// maxPromised and maxPromisedKeys bound the promises that are remembered, by number and
	// by the block keys of them all (8 bytes each). What does not fit is not believed.
	maxPromised     = 65_536
	maxPromisedKeys = 4 << 20
)

// promised are the promises that other routers have made in one pool, in the order in which
// they came, as far as they have not ended. They belong to one reader.
type promised struct {
	open map[promiseOf]*promise
	// order has them in the order in which they came, with those that have ended since.
	order []*promise
	keys  int // of those that are open
}

// promiseOf tells promises of all routers apart.
type promiseOf struct {
	replica uint64
	number  kvindex.Promise
}

// promise is what the memory has of one.
type promise struct {
	promiseOf

	backend *backend
	keys    []kvindex.Key
	receipt kvindex.Receipt
	came    time.Time
}

// room reports whether one more fits.
func (s *promised) room(keys int) bool {
	return len(s.open) < maxPromised && len(s.order) < 4*maxPromised && s.keys+keys <= maxPromisedKeys
}

// add remembers a promise.
func (s *promised) add(p *promise) {
	if s.open == nil {
		s.open = make(map[promiseOf]*promise)
	}
	s.open[p.promiseOf] = p
	s.order = append(s.order, p)
	s.keys += len(p.keys)
}

// end forgets a promise and returns it, nil where there is none.
func (s *promised) end(of promiseOf) *promise {
	p := s.open[of]
	if p != nil {
		delete(s.open, of)
		s.keys -= len(p.keys)
	}
	return p
}

// old forgets the promises that came before a moment, and returns those of them that have
// not ended.
func (s *promised) old(before time.Time) []*promise {
	var old []*promise
	for len(s.order) > 0 {
		p := s.order[0]
		if open := s.open[p.promiseOf] == p; open && !p.came.Before(before) {
			break
		} else if open {
			old = append(old, s.end(p.promiseOf))
		}
		s.order[0] = nil
		s.order = s.order[1:]
	}
	return old
}

// expect takes in that another router has sent a prompt to a backend.
func (r *reader) expect(c chain, of promiseOf, b *backend, clock conversion) {
	if r.promised.open[of] != nil {
		return // a writer that did not hear that it was done tells it twice
	}
	now := r.config.Now()
	if r.clock.fleetNow() > c.last.after(promiseFor) || !r.promised.room(len(c.keys)) {
		r.counts.ignored.Add(1)
		return
	}
	receipt := b.resident.Record(c.keys, clock.local(min(c.last, r.clock.fleetNow())), kvindex.Predicted)
	r.promised.add(&promise{promiseOf: of, backend: b, keys: c.keys, receipt: receipt, came: now})
}

// ended takes in what came of a promise.
func (r *reader) ended(e end, replica uint64) {
	p := r.promised.end(promiseOf{replica, e.promise})
	if p == nil {
		return
	}
	if !e.kept {
		p.retract()
	}
	p.keys = nil // it stays in the order behind those that have not ended
}

// expire withdraws promises of which nothing more was heard.
func (r *reader) expire() {
	for _, p := range r.promised.old(r.config.Now().Add(-promiseFor)) {
		p.retract()
	}
}

// retract takes back what a promise added and nobody touched since.
func (p *promise) retract() { p.backend.resident.Retract(p.keys, p.receipt) }
