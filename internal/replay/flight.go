package replay

import (
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// flight is one request on its way through a fleet. One that did not come through the
// router has no decision.
type flight struct {
	fleet    *Fleet
	via      *replica
	node     *node
	place    int // in node.flights
	ask      workload.Request
	at       time.Duration
	decision *router.Decision
	sequence *enginesim.Sequence
	keys     []kvindex.Key
	blocks   []enginesim.BlockID
	prompt   int // tokens
	stream   int // bytes of key stream
	hashed   int // bytes of it that keys stand for
	cached   int // tokens found at admission

	sample int // in Result.Samples

	plan     plan
	admitted bool
	first    bool
	tokens   int // of the answer so far
	over     bool
	life     uint64 // told apart from earlier users of the same memory
}

// take returns memory for a flight.
func (f *Fleet) take(at time.Duration, ask workload.Request) *flight {
	if n := len(f.spare); n > 0 {
		fl := f.spare[n-1]
		f.spare = f.spare[:n-1]
		*fl = flight{fleet: f, at: at, ask: ask, keys: fl.keys[:0], blocks: fl.blocks[:0], life: fl.life + 1}
		return fl
	}
	return &flight{fleet: f, at: at, ask: ask}
}

// route lets the router choose a backend and sends the request there.
func (f *Fleet) route(at time.Duration, ask workload.Request) {
	fl := f.take(at, ask)
	fl.via = f.pick()
	fl.plan = f.noise.plan(&fl.ask)
	fl.describe()
	seed := f.seed(ask.Tenant)
	req := router.Request{
		Now: clock(at), Random: f.rng.Uint64(), Pool: fl.via.pool, Scope: seed,
		Blocks: fl.keys, StreamBytes: fl.stream, HashedBytes: fl.hashed,
		Prefix: fl.prefix(seed), Route: "chat", Streamed: true,
	}
	req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(fl.keys, f.config.Router.BlockBytes, "")
	if f.config.Placement != ByRouter {
		req.Pin = f.place(fl, &req)
	}
	f.result.Requests++
	decision, err := fl.via.router.Route(&req)
	if err != nil {
		f.result.Rejected++
		fl.observe(feedback.Outcome{Now: clock(at), Result: feedback.Saturated, Status: 429})
		fl.end(at, false)
		return
	}
	fl.decision = decision
	f.result.Busiest = max(f.result.Busiest, decision.InFlight+1)
	fl.node = fl.via.node(decision.Backend)
	fl.submit(at)
}

// submitForeign sends a request to an engine past the router.
func (f *Fleet) submitForeign(at time.Duration, n *node, ask workload.Request) {
	fl := f.take(at, ask)
	fl.describe()
	fl.node = n
	f.result.Foreign++
	fl.submit(at)
}

// describe derives from the content what the engine and the router see of it.
func (fl *flight) describe() {
	f, ask := fl.fleet, &fl.ask
	fl.prompt = workload.Tokens(ask.Prompt)
	diverges := -1
	if ask.DivergesAt > 0 {
		diverges = int(ask.DivergesAt * float64(fl.prompt))
	}
	follow := [1]workload.Segment{{ID: ask.Answer, Tokens: ask.OutputTokens}}
	known := follow[:0]
	if ask.Answer != 0 {
		known = follow[:]
	}
	f.tokens = appendTokenRuns(f.tokens[:0], ask.Prompt, known, diverges, f.noise.other())
	fl.blocks = appendChain(fl.blocks, engineRoot, f.tokens, f.nodes[0].engine.BlockSize())

	f.bytes = f.bytes[:0]
	fl.stream = 0
	limit := f.limit
	for _, s := range ask.Prompt {
		n := f.units.bytes(s)
		if keep := min(n, limit-fl.stream); keep > 0 {
			f.bytes = append(f.bytes, run{s.ID, keep})
		}
		fl.stream += n
	}
	fl.hashed = min(fl.stream, limit)
	fl.keys = appendChain(fl.keys, f.seed(ask.Tenant), f.bytes, f.config.Router.BlockBytes)
	if f.index.claims != nil && ask.DivergesAt == 0 {
		fl.registerClaims()
	}
}

// prefix names the hashed part of the prompt as a whole.
func (fl *flight) prefix(seed kvindex.Key) kvindex.Key {
	parent := seed
	if len(fl.keys) > 0 {
		parent = fl.keys[len(fl.keys)-1]
	}
	tail := fl.hashed - len(fl.keys)*fl.fleet.config.Router.BlockBytes
	if tail == 0 {
		return parent
	}
	last := fl.fleet.bytes[len(fl.fleet.bytes)-1]
	return kvindex.Key(workload.Mix(uint64(parent) ^ workload.Mix(last.id^uint64(last.length)<<32^uint64(tail))))
}

// submit queues the request on its engine.
func (fl *flight) submit(at time.Duration) {
	n := fl.node
	sequence, err := n.engine.Submit(at, enginesim.Request{
		PromptTokens: fl.prompt, OutputTokens: max(fl.ask.OutputTokens, 1), Blocks: fl.blocks, Tag: fl,
	})
	if err != nil { // longer than the engine's context: it answers 400
		if fl.decision != nil {
			fl.fleet.result.Refused++
		}
		fl.complete(feedback.Outcome{Now: clock(at), Result: feedback.Rejected, Blame: feedback.Healthy, Status: 400})
		fl.end(at, false)
		return
	}
	fl.sequence = sequence
	n.join(fl)
	if fl.plan.leaveAfter > 0 {
		n.fleet.agenda.add(moment{at: at + fl.plan.leaveAfter, kind: momentAbort, flight: fl, ticket: fl.life})
	}
	n.schedule()
}

// admit notes what the engine found when it took the request up for the first time.
func (fl *flight) admit(cached int) {
	if fl.admitted {
		return
	}
	fl.admitted, fl.cached = true, cached
	if fl.decision != nil {
		fl.fleet.result.admitted(fl)
	}
}

func (fl *flight) firstToken(at time.Duration) {
	fl.first = true
	fl.tokens = 1
	if fl.decision == nil {
		return
	}
	fl.via.lastFirst[fl.node.number] = at
	fl.fleet.result.firstToken(fl, at-fl.at)
	fl.via.router.FirstToken(fl.decision, clock(at))
	fl.leaveIfPlanned(at)
}

func (fl *flight) token(at time.Duration) {
	fl.tokens++
	fl.leaveIfPlanned(at)
}

func (fl *flight) leaveIfPlanned(at time.Duration) {
	if fl.plan.leaveAtToken > 0 && fl.tokens >= fl.plan.leaveAtToken {
		fl.abort(at, fl.life)
	}
}

// finish is the end of an answer in full.
func (fl *flight) finish(at time.Duration) {
	fl.node.leave(fl)
	o := feedback.Outcome{Now: clock(at), Result: feedback.Success, Blame: feedback.Healthy, Status: 200, FirstByte: true}
	if config := &fl.fleet.config; !config.NoFeedback {
		o.Usage = feedback.Usage{Prompt: fl.prompt, Completion: fl.ask.OutputTokens, HasPrompt: true, HasCompletion: true}
		if !config.Unreported {
			o.Usage.HasCached = true
			if !fl.plan.reportZero {
				o.Usage.Cached = fl.cached
			}
		}
	}
	fl.node.witness(fl, func() { fl.complete(o) })
	if fl.decision != nil {
		fl.fleet.result.answered(fl, at-fl.at)
	}
	fl.end(at, true)
}

// abort is a client that leaves. life tells whether it is still the same request.
func (fl *flight) abort(at time.Duration, life uint64) {
	if fl.over || fl.life != life {
		return
	}
	fl.node.leave(fl)
	fl.node.engine.Abort(at, fl.sequence)
	fl.node.schedule()
	fl.fleet.result.Aborted++
	fl.complete(feedback.Outcome{Now: clock(at), Result: feedback.ClientClosed, Blame: feedback.Neutral, Status: 200, FirstByte: fl.first})
	fl.end(at, false)
}

// breakOff is an engine that dies under the request. It is off the engine's list already.
func (fl *flight) breakOff(at time.Duration) {
	o := feedback.Outcome{Now: clock(at), Result: feedback.Unavailable, Blame: feedback.Strike}
	if fl.first {
		o.Result, o.Status, o.FirstByte = feedback.UpstreamAborted, 200, true
	}
	if fl.decision != nil {
		fl.fleet.result.Broken++
	}
	fl.complete(o)
	fl.end(at, false)
}

// complete tells the router, where it knows of the request.
func (fl *flight) complete(o feedback.Outcome) {
	if fl.decision == nil {
		return
	}
	fl.observe(o)
	fl.via.router.Complete(fl.decision, o)
}

// end gives the memory back and tells the source. The engine is done with the flight.
func (fl *flight) end(at time.Duration, answered bool) {
	f := fl.fleet
	foreign := fl.decision == nil && fl.node != nil
	ask := fl.ask
	fl.over = true
	f.spare = append(f.spare, fl)
	if !foreign {
		f.ended(&ask, at, answered)
	}
}
