package redisindex

import (
	"encoding/binary"
	"math"

	"github.com/warmroute/warmroute/kvindex"
)

// A message is what one router tells the others in one record of a pool's stream.
//
// It is binary: a version byte, the replica's number and the message's own, which counts up
// from 1 in each pool, in eight bytes each; then sections, each with a byte that says what
// it is. Numbers are varints, texts have their length before them, block keys are eight
// bytes. A chain has its backend's name only where that is not the backend of the chain
// before, and its keys without the leading ones that it has in common with that.
type message struct {
	replica  uint64
	number   uint64
	chains   []chain
	ends     []end
	horizons []horizon
	pins     []pin
	// report is the replica's load, nil where the message does not tell it.
	report *report
}

// chain is that a backend was seen to hold a whole chain of blocks, or will, if the
// replica's promise of that number is kept.
type chain struct {
	backend string // its label
	last    moment
	keys    []kvindex.Key
	promise kvindex.Promise // 0: it was seen
}

// end is that a promise was kept, or withdrawn.
type end struct {
	promise kvindex.Promise
	kept    bool
}

// horizon is that a backend holds nothing that was last used at a moment or before.
type horizon struct {
	backend string
	at      moment
}

// report is what a replica has on the backends of the pool: on all where it is whole, else
// on those where that has changed.
type report struct {
	at    moment
	whole bool
	loads []load
}

// load is what a replica has on one backend; [router.Load] says what each number is.
type load struct {
	backend         string
	inFlight        int
	tokens          int64
	began, progress moment // of the backlog; progress is 0 before any
	rate            float64
}

const (
	messageVersion = 3

	sectionChain   = 'C'
	sectionPromise = 'P' // a chain, and the number of its promise before
	sectionKept    = 'K'
	sectionBroken  = 'B'
	sectionHorizon = 'H'
	sectionPin     = 'S' // as sessions are
	sectionReport  = 'R'
	sectionChanges = 'D' // a report that is not whole
)

// The bounds of a message. A writer keeps them, a reader refuses what does not.
const (
	maxMessage       = 64 << 10 // bytes
	maxMessageChains = 1000
	maxMessageKeys   = 128 << 10 // of all chains, with what they have in common
	maxInFlight      = 1 << 24
	maxTokens        = 1 << 50
	maxRate          = 1e12
)

// encoder packs what a replica has to tell of one pool into messages.
type encoder struct {
	replica uint64
	told    *uint64 // the number of the last message
	done    [][]byte
	buf     []byte
	chains  int           // in buf
	keys    int           // in buf, of all chains
	backend string        // of the last chain in buf
	last    []kvindex.Key // that chain
	fixed   int           // bytes of buf that are no sections
}

// newEncoder returns an encoder of what a replica tells in a pool where it has told so many
// messages before, and counts those that it makes.
func newEncoder(replica uint64, told *uint64) *encoder {
	e := &encoder{replica: replica, told: told}
	e.begin()
	return e
}

func (e *encoder) begin() {
	e.buf = binary.LittleEndian.AppendUint64([]byte{messageVersion}, e.replica)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, *e.told+1)
	e.fixed = len(e.buf)
	e.chains, e.keys, e.backend, e.last = 0, 0, "", nil
}

// end closes the message that is being written.
func (e *encoder) end() {
	if len(e.buf) > e.fixed {
		e.done = append(e.done, e.buf)
		*e.told++
	}
	e.begin()
}

// room makes sure that n bytes more fit into the message.
func (e *encoder) room(n int) {
	if len(e.buf)+n > maxMessage {
		e.end()
	}
}

// messages returns everything that was added.
func (e *encoder) messages() [][]byte {
	e.end()
	return e.done
}

func (e *encoder) number(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }

func (e *encoder) moment(m moment) { e.number(uint64(min(max(m, 0), maxMoment))) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// addChain adds a chain. Those of one backend should follow one another.
func (e *encoder) addChain(c chain) {
	e.room(8*len(c.keys) + len(c.backend) + 6*binary.MaxVarintLen64)
	if e.chains == maxMessageChains || e.keys+len(c.keys) > maxMessageKeys {
		e.end()
	}
	if c.promise == 0 {
		e.buf = append(e.buf, sectionChain)
	} else {
		e.buf = append(e.buf, sectionPromise)
		e.number(uint64(c.promise))
	}
	if c.backend == e.backend {
		e.text("")
	} else {
		e.text(c.backend)
		e.backend, e.last = c.backend, nil
	}
	shared := 0
	for shared < min(len(c.keys), len(e.last)) && c.keys[shared] == e.last[shared] {
		shared++
	}
	e.moment(c.last)
	e.number(uint64(shared))
	e.number(uint64(len(c.keys) - shared))
	for _, key := range c.keys[shared:] {
		e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(key))
	}
	e.chains++
	e.keys += len(c.keys)
	e.last = c.keys
}

func (e *encoder) addEnd(x end) {
	e.room(1 + binary.MaxVarintLen64)
	section := byte(sectionBroken)
	if x.kept {
		section = sectionKept
	}
	e.buf = append(e.buf, section)
	e.number(uint64(x.promise))
}

func (e *encoder) addHorizon(h horizon) {
	e.room(len(h.backend) + 3*binary.MaxVarintLen64)
	e.buf = append(e.buf, sectionHorizon)
	e.text(h.backend)
	e.moment(h.at)
}

func (e *encoder) addPin(p pin) {
	e.room(1 + 8 + len(p.backend) + 2*binary.MaxVarintLen64)
	e.buf = append(e.buf, sectionPin)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(p.key))
	e.text(p.backend)
	e.moment(p.at)
}

// addReport adds a report; one that does not fit into a message tells of the first
// backends only.
func (e *encoder) addReport(r report) {
	const perLoad = 6*binary.MaxVarintLen64 + 8
	size, fit := 2*binary.MaxVarintLen64, 0
	for _, l := range r.loads {
		if size += perLoad + len(l.backend); size > maxMessage-e.fixed {
			break
		}
		fit++
	}
	e.room(size)
	section := byte(sectionChanges)
	if r.whole {
		section = sectionReport
	}
	e.buf = append(e.buf, section)
	e.moment(r.at)
	e.number(uint64(fit))
	for _, l := range r.loads[:fit] {
		e.text(l.backend)
		e.number(uint64(min(max(l.inFlight, 0), maxInFlight)))
		e.number(uint64(min(max(l.tokens, 0), maxTokens)))
		e.moment(l.began)
		e.moment(l.progress)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(min(max(l.rate, 0), maxRate)))
	}
}
