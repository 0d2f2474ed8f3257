package replay

import (
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/kvindex"
)

// node is one engine with the backend that the router knows it by.
type node struct {
	fleet   *Fleet
	number  int
	backend *backends.Backend
	holder  kvindex.Holder

	engine     *enginesim.Engine
	cachingOff bool
	started    time.Duration // of the process
	boots      uint64
	flights    []*flight // what it has not finished

	due    time.Duration // of the step noted last
	noted  bool
	ticket uint64 // of that step

	recovery *Recovery // of the last fault, while it is watched
}

// boot starts the engine's process anew.
func (n *node) boot(at time.Duration) error {
	c := n.fleet.config.Engine
	c.DisablePrefixCaching = c.DisablePrefixCaching || n.cachingOff
	c.Seed = workload.Mix(n.fleet.config.Seed ^ uint64(n.number)<<32 ^ n.boots)
	engine, err := enginesim.New(c)
	if err != nil {
		return err
	}
	n.engine, n.started = engine, at
	n.boots++
	n.noted = false
	n.ticket++
	return nil
}

// schedule notes when the engine has something to do next.
func (n *node) schedule() {
	at, ok := n.engine.NextStep()
	if ok && n.noted && at == n.due {
		return
	}
	n.ticket++
	n.due, n.noted = at, ok
	if ok {
		n.fleet.agenda.add(moment{at: at, kind: momentStep, node: n.number, ticket: n.ticket})
	}
}

// step lets the engine do what is due.
func (n *node) step(at time.Duration) {
	n.noted = false
	for _, event := range n.engine.Step(at) {
		fl, _ := event.Sequence.Tag().(*flight)
		if fl == nil || fl.over {
			continue
		}
		switch event.Kind {
		case enginesim.EventAdmitted:
			fl.admit(event.Tokens)
		case enginesim.EventFirstToken:
			fl.firstToken(event.At)
		case enginesim.EventToken:
			fl.token(event.At)
		case enginesim.EventFinished:
			fl.finish(event.At)
		case enginesim.EventPreempted:
			n.fleet.result.Preemptions++
		}
	}
	n.schedule()
}

// join and leave keep the list of what the engine has not finished.
func (n *node) join(fl *flight) {
	fl.place = len(n.flights)
	n.flights = append(n.flights, fl)
}

func (n *node) leave(fl *flight) {
	last := len(n.flights) - 1
	moved := n.flights[last]
	n.flights[fl.place], moved.place = moved, fl.place
	n.flights[last] = nil
	n.flights = n.flights[:last]
}

// scrape lets a router read an engine's metrics.
func (v *replica) scrape(n *node, at time.Duration) {
	f := v.fleet
	s := feedback.EngineState{
		At: clock(at), Engine: "vllm",
		CapacityTokens: int(f.config.StatedCapacity * float64(n.engine.MaxTokens())),
		BlockTokens:    n.engine.BlockSize(),
		CachingOff:     n.cachingOff,
	}
	if !f.config.NoFeedback {
		c := n.engine.Counters()
		arriving, waiting, running := n.engine.Load()
		s.Running, s.HasRunning = running, true
		s.Waiting, s.HasWaiting = arriving+waiting, true
		s.Queries, s.Hits, s.HasHits = float64(c.PrefixQueries), float64(c.PrefixHits), true
		s.PromptTokens, s.HasPromptTokens = float64(c.PromptTokens), true
		s.Started = float64(clock(n.started).UnixNano()) / 1e9
	}
	v.router.Scraped(v.pool, v.backends[n.number], s)
}

// fault lets something happen to one engine.
func (f *Fleet) fault(at time.Duration, fault Fault) error {
	n := f.nodes[fault.Backend]
	switch fault.Kind {
	case LoseCache:
		n.engine.LoseCache()
	case Restart:
		broken := n.flights
		n.flights = nil
		if err := n.boot(at); err != nil {
			return err
		}
		for _, fl := range broken {
			fl.breakOff(at)
		}
	}
	n.watch(at, fault.Kind)
	return nil
}
