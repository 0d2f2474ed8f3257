package redisindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// errMalformed is what is wrong with bytes that are no message of ours.
var errMalformed = errors.New("redisindex: malformed message")

// decode reads a message. It trusts nothing: whatever the bytes say, it takes no more than
// a message may hold.
func decode(data []byte) (*message, error) {
	if len(data) > maxMessage {
		return nil, fmt.Errorf("%w: %d bytes", errMalformed, len(data))
	}
	d := &decoder{rest: data}
	if version := d.byte(); version != messageVersion {
		return nil, fmt.Errorf("%w: version %d, not %d", errMalformed, version, messageVersion)
	}
	m := &message{replica: d.fixed(), number: d.fixed()}
	for len(d.rest) > 0 && !d.bad {
		switch section := d.byte(); section {
		case sectionChain:
			d.chain(m, 0)
		case sectionPromise:
			d.chain(m, d.promise())
		case sectionKept, sectionBroken:
			m.ends = append(m.ends, end{promise: d.promise(), kept: section == sectionKept})
		case sectionHorizon:
			m.horizons = append(m.horizons, horizon{backend: d.label(), at: d.moment()})
		case sectionPin:
			d.pin(m)
		case sectionReport, sectionChanges:
			d.report(m, section == sectionReport)
		default:
			d.bad = true
		}
	}
	if d.bad {
		return nil, errMalformed
	}
	return m, nil
}

// decoder reads a message from the front. Once bad, it stays so.
type decoder struct {
	rest []byte
	bad  bool
	keys int // of all chains so far
}

// take returns the next n bytes.
func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.rest) {
		d.bad = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// number reads a number of at most limit.
func (d *decoder) number(limit uint64) uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > limit {
		d.bad = true
		return 0
	}
	d.take(size)
	return n
}

func (d *decoder) moment() moment { return moment(d.number(uint64(maxMoment))) }

// label reads the name of a backend.
func (d *decoder) label() string { return string(d.take(int(d.number(maxLabel)))) }

// promise reads the number of a promise, which is not 0.
func (d *decoder) promise() kvindex.Promise {
	n := d.number(math.MaxInt64)
	d.bad = d.bad || n == 0
	return kvindex.Promise(n)
}

func (d *decoder) chain(m *message, promise kvindex.Promise) {
	c := chain{backend: d.label(), promise: promise}
	var before []kvindex.Key
	if n := len(m.chains); n > 0 {
		if last := m.chains[n-1]; c.backend == "" || c.backend == last.backend {
			c.backend, before = last.backend, last.keys
		}
	}
	c.last = d.moment()
	shared := int(d.number(uint64(len(before))))
	own := d.take(8 * int(d.number(maxMessage/8)))
	if n := shared + len(own)/8; n == 0 || d.keys+n > maxMessageKeys || len(m.chains) == maxMessageChains || c.backend == "" {
		d.bad = true
	}
	if d.bad {
		return
	}
	c.keys = make([]kvindex.Key, 0, shared+len(own)/8)
	c.keys = append(c.keys, before[:shared]...)
	for ; len(own) > 0; own = own[8:] {
		c.keys = append(c.keys, kvindex.Key(binary.BigEndian.Uint64(own)))
	}
	d.keys += len(c.keys)
	m.chains = append(m.chains, c)
}

func (d *decoder) pin(m *message) {
	p := pin{key: router.PinKey(d.fixed()), backend: d.label(), at: d.moment()}
	d.bad = d.bad || p.key == 0
	m.pins = append(m.pins, p)
}

func (d *decoder) report(m *message, whole bool) {
	r := &report{at: d.moment(), whole: whole}
	for n := d.number(maxMessage); n > 0 && !d.bad; n-- {
		l := load{
			backend:  d.label(),
			inFlight: int(d.number(maxInFlight)),
			tokens:   int64(d.number(maxTokens)),
			began:    d.moment(),
			progress: d.moment(),
			rate:     math.Float64frombits(d.fixed()),
		}
		if !(l.rate >= 0 && l.rate <= maxRate) { // NaN is neither
			d.bad = true
		}
		r.loads = append(r.loads, l)
	}
	m.report = r
}
