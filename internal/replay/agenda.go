package replay

import (
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// moment is something that is due. At one time, moments come in the order of their
// kinds, then in the order in which they were noted.
type moment struct {
	at      time.Duration
	kind    momentKind
	order   uint64
	node    int                    // step, scrape
	replica *replica               // scrape
	ticket  uint64                 // step: valid while it is the node's latest
	flight  *flight                // abort
	ask     workload.Request       // arrival
	fault   Fault                  // fault
	hear    func(at time.Duration) // hear
	own     bool                   // arrival: the source's next, after which another is fetched
}

type momentKind uint8

const (
	momentStep momentKind = iota
	momentFault
	momentScrape
	momentHear
	momentAbort
	momentArrival
	momentAudit
	momentSteer
)

func (m *moment) before(o *moment) bool {
	if m.at != o.at {
		return m.at < o.at
	}
	if m.kind != o.kind {
		return m.kind < o.kind
	}
	return m.order < o.order
}

// agenda is what is due, as a binary heap.
type agenda struct {
	heap  []*moment
	order uint64
	spare []*moment
	work  int // moments that are not mere housekeeping
}

// add notes that something is due.
func (a *agenda) add(m moment) {
	a.order++
	m.order = a.order
	var p *moment
	if n := len(a.spare); n > 0 {
		p, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		p = new(moment)
	}
	*p = m
	if !m.kind.housekeeping() {
		a.work++
	}
	a.heap = append(a.heap, p)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !a.heap[i].before(a.heap[parent]) {
			break
		}
		a.heap[i], a.heap[parent] = a.heap[parent], a.heap[i]
		i = parent
	}
}

// sink moves what stands at a place down to where it belongs.
func (a *agenda) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			return
		}
		if child+1 < len(a.heap) && a.heap[child+1].before(a.heap[child]) {
			child++
		}
		if !a.heap[child].before(a.heap[i]) {
			return
		}
		a.heap[i], a.heap[child] = a.heap[child], a.heap[i]
		i = child
	}
}

// next takes out what is due first.
func (a *agenda) next() (m moment, ok bool) {
	if len(a.heap) == 0 {
		return moment{}, false
	}
	first := a.heap[0]
	last := len(a.heap) - 1
	a.heap[0] = a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	a.sink(0)
	m = *first
	*first = moment{}
	a.spare = append(a.spare, first)
	if !m.kind.housekeeping() {
		a.work--
	}
	return m, true
}

// upkeep reports whether the kind repeats for ever, or is told because of what does: as long
// as nothing else happens, nothing comes of it that was not so before.
func (k momentKind) upkeep() bool {
	return k == momentScrape || k == momentHear || k == momentAudit || k == momentSteer
}

// housekeeping reports whether the kind keeps no run alive: it is of no use when nothing
// comes after it.
func (k momentKind) housekeeping() bool { return k.upkeep() || k == momentFault }

// event is when the first is due that is not upkeep; ok is false when nothing is.
func (a *agenda) event() (at time.Duration, ok bool) {
	for _, m := range a.heap {
		if !m.kind.upkeep() && (!ok || m.at < at) {
			at, ok = m.at, true
		}
	}
	return at, ok
}

// putOff moves all upkeep to later, with the distances between.
func (a *agenda) putOff(by time.Duration) {
	for _, m := range a.heap {
		if m.kind.upkeep() {
			m.at += by
		}
	}
	for i := len(a.heap)/2 - 1; i >= 0; i-- {
		a.sink(i)
	}
}
