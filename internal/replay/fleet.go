package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
)

// poolName is the name of the one pool.
const poolName = "replay"

// epoch is the wall clock's time at the beginning of a run.
var epoch = time.Unix(1_700_000_000, 0) //nolint:gochecknoglobals // a constant

// Fleet is engine models behind a router, or several. It serves one run.
type Fleet struct {
	config   Config
	replicas []*replica
	index    *auditedIndex // of the first replica
	nodes    []*node
	agenda   agenda
	source   workload.Source
	rng      *rand.Rand // the router's random values
	noise    noise
	units    units
	limit    int // prefix_length, in bytes of key stream

	seeds  map[string]kvindex.Key // chain seed by tenant
	tokens []run                  // scratch
	bytes  []run                  // scratch
	record feedback.Record        // scratch
	probe  [1]enginesim.BlockID   // scratch
	spare  []*flight
	routed int
	done   int // requests that have ended
	now    time.Duration
	awake  time.Duration // when something happened last that is not upkeep
	napped bool          // since then
	result Result
}

// New returns a fleet of idle engines with empty caches.
func New(c Config) (*Fleet, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if c.BytesPerToken == 0 {
		c.BytesPerToken = feedback.DefaultBytesPerToken
	}
	if c.AuditEvery == 0 {
		c.AuditEvery = time.Minute
	}
	f := &Fleet{
		config: c,
		rng:    rand.New(rand.NewPCG(c.Seed, 0x726f75746572)),
		units:  units{bytesPerToken: c.BytesPerToken, spread: c.Noise.BytesSpread, seed: c.Seed},
		seeds:  make(map[string]kvindex.Key),
		limit:  c.Router.HashLength(),
	}
	f.noise = newNoise(c.Noise, c.Seed)
	for number := range max(c.Routers, 1) {
		v, err := newReplica(f, number)
		if err != nil {
			return nil, err
		}
		f.replicas = append(f.replicas, v)
	}
	f.index = f.replicas[0].index
	if c.Audit {
		f.index.claims = make(map[kvindex.Key]enginesim.BlockID)
		f.index.held = f.held
	}
	for i, b := range f.replicas[0].backends {
		n := &node{fleet: f, number: i, backend: b, holder: f.index.holders[i], cachingOff: slices.Contains(c.CachingOff, i)}
		if err := n.boot(0); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		f.nodes = append(f.nodes, n)
	}
	f.result = newResult(c)
	return f, nil
}

// backendURL names backend i so that the order of ids is that of numbers.
func backendURL(i int) string {
	s := strconv.Itoa(i)
	return "http://engine-" + "0000"[min(len(s), 4):] + s + ":8000"
}

// Run plays a source to its end and returns what was measured.
func (f *Fleet) Run(s workload.Source) (*Result, error) {
	f.source = s
	f.fetch()
	f.begin()
	for moments := 1; f.agenda.work > 0; moments++ {
		if moments%progressEvery == 0 && f.config.Progress != nil {
			if err := f.config.Progress(f.done); err != nil {
				return nil, err
			}
		}
		f.nap()
		m, _ := f.agenda.next()
		if err := f.handle(m); err != nil {
			return nil, fmt.Errorf("replay: at %v: %w", m.at, err)
		}
	}
	for len(f.agenda.heap) > 0 {
		if m, _ := f.agenda.next(); m.kind == momentFault {
			f.result.Missed = append(f.result.Missed, m.fault)
		}
	}
	f.result.close(f)
	result := f.result // alone: it may outlive the fleet, which is large
	return &result, nil
}

// begin notes what happens without a request. Nothing of what repeats is in step: engines
// take turns, and so do routers.
func (f *Fleet) begin() {
	engines, routers := time.Duration(len(f.nodes)), time.Duration(len(f.replicas))
	for i, v := range f.replicas {
		turn := time.Duration(i)
		if every := f.config.ScrapeEvery; every > 0 {
			for _, n := range f.nodes {
				at := every * (time.Duration(n.number)*routers + turn) / (engines * routers)
				f.agenda.add(moment{at: at, kind: momentScrape, node: n.number, replica: v})
			}
		}
		if f.sharing() {
			f.agenda.add(moment{at: shareLoadsEvery * turn / routers, kind: momentHear, hear: v.shareLoad})
		}
	}
	for _, fault := range f.config.Faults {
		f.agenda.add(moment{at: fault.At, kind: momentFault, fault: fault})
	}
	if f.config.Steer != nil {
		f.agenda.add(moment{at: f.config.SteerEvery, kind: momentSteer})
	}
	if f.config.Audit {
		f.agenda.add(moment{at: f.config.AuditEvery, kind: momentAudit})
	}
}

// settled is after how long without an event all upkeep has said what it has to say: every
// engine was scraped twice, and routers heard of each other's load.
func (f *Fleet) settled() time.Duration { return max(10*time.Second, 2*f.config.ScrapeEvery) }

// nap passes over the upkeep of a time in which nothing happens, and leaves that of its
// beginning and of its end: a pause of a month takes no longer than one of some minutes. It is
// called before every moment. Where the index is audited, it does nothing: audits are counted.
func (f *Fleet) nap() {
	due := f.agenda.heap[0]
	if !due.kind.upkeep() {
		f.awake, f.napped = due.at, false
		return
	}
	if f.napped || f.config.Audit || due.at-f.awake < f.settled() {
		return
	}
	f.napped = true // once in a pause: then what is left of it is short
	beat := cmp.Or(f.config.ScrapeEvery, shareLoadsEvery)
	if event, ok := f.agenda.event(); ok && event-due.at > f.settled() {
		f.agenda.putOff((event - f.settled() - due.at) / beat * beat)
	}
}

// handle does what is due.
func (f *Fleet) handle(m moment) error {
	f.now = m.at
	switch m.kind {
	case momentArrival:
		if m.own {
			f.fetch()
		}
		return f.arrive(m.at, m.ask)
	case momentStep:
		n := f.nodes[m.node]
		if n.ticket == m.ticket {
			n.step(m.at)
		}
	case momentAbort:
		m.flight.abort(m.at, m.ticket)
	case momentScrape:
		m.replica.scrape(f.nodes[m.node], m.at)
		m.at += f.config.ScrapeEvery
		f.agenda.add(m)
	case momentHear:
		m.hear(m.at)
	case momentFault:
		return f.fault(m.at, m.fault)
	case momentSteer:
		pool := f.replicas[0].pool
		f.config.Steer(clock(m.at), pool)
		f.limit = pool.Config().HashLength()
		f.agenda.add(moment{at: m.at + f.config.SteerEvery, kind: momentSteer})
	case momentAudit:
		f.sampleIndex()
		f.agenda.add(moment{at: m.at + f.config.AuditEvery, kind: momentAudit})
	}
	return nil
}

// fetch notes the source's next request.
func (f *Fleet) fetch() {
	if r, ok := f.source.Next(); ok {
		f.agenda.add(moment{at: r.At, kind: momentArrival, ask: r, own: true})
	}
}

// arrive routes a request that arrives at a moment, and lets the noise add to it.
func (f *Fleet) arrive(at time.Duration, ask workload.Request) error {
	if f.noise.hit(f.config.Noise.Foreign) {
		if foreign, ok := f.noise.recall(); ok {
			f.submitForeign(at, f.nodes[f.noise.rng.IntN(len(f.nodes))], foreign)
		}
	}
	f.noise.remember(&ask)
	f.route(at, ask)
	f.routed++
	if every := f.config.Noise.FaultEvery; every > 0 && f.routed%every == 0 {
		kind := FaultKind(f.routed / every % 2)
		return f.fault(at, Fault{Backend: f.noise.rng.IntN(len(f.nodes)), Kind: kind})
	}
	return nil
}

// ended tells the source, and notes what it brings about.
func (f *Fleet) ended(ask *workload.Request, at time.Duration, answered bool) {
	f.done++
	f.result.Duration = max(f.result.Duration, at)
	if next, ok := f.source.Ended(ask, at, answered); ok {
		f.agenda.add(moment{at: max(next.At, at), kind: momentArrival, ask: next})
	}
}

// seed is the parent of the first block of every key chain of a tenant.
func (f *Fleet) seed(tenant string) kvindex.Key {
	seed, ok := f.seeds[tenant]
	if !ok {
		seed = kvindex.Scope{BlockBytes: f.config.Router.BlockBytes, Pool: poolName, TenantID: tenant}.Seed()
		f.seeds[tenant] = seed
	}
	return seed
}

// clock is the wall clock's time at a moment of the run.
func clock(at time.Duration) time.Time { return epoch.Add(at) }

// engineRoot is the parent of the first engine block of every chain.
const engineRoot enginesim.BlockID = 1
