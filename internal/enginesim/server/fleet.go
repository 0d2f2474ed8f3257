package server

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// errStopped is what requests get once the loop has ended.
var errStopped = errors.New("engine loop has ended")

// minWait bounds how finely the loop follows the model, so that rounding
// between model and wall time cannot make it spin.
const minWait = time.Microsecond

// fleet is the data-parallel engines of one server and the clock they share.
type fleet struct {
	model enginesim.Config // of the first engine
	start time.Time
	speed float64
	wake  chan struct{}
	done  chan struct{} // closed when the loop has ended

	mu      sync.Mutex // guards all below and the state of every choice
	engines []*enginesim.Engine
	life    *life
	stopped bool
	totals  totals
	recent  []requestRecord // the last finished requests, oldest first
}

// life is the time between two restarts.
type life struct {
	started time.Time
	over    chan struct{} // closed when it ends
}

// lifeKey is the context key of the life that a request began in.
type lifeKey struct{}

func newLife() *life { return &life{started: time.Now(), over: make(chan struct{})} }

// totals are sums over all requests of this life.
type totals struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	GenerationTokens int64 `json:"generation_tokens"`
	Finished         int64 `json:"finished"`
	Aborted          int64 `json:"aborted"`
}

// requestRecord is what became of one sequence.
type requestRecord struct {
	ID               string  `json:"id"`
	Engine           int     `json:"engine"`
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	GenerationTokens int     `json:"generation_tokens"`
	QueueSeconds     float64 `json:"queue_s"`
	TTFTSeconds      float64 `json:"ttft_s"`
	TotalSeconds     float64 `json:"total_s"`
	Aborted          bool    `json:"aborted"`
}

// maxRecent bounds the record of finished requests.
const maxRecent = 256

func newFleet(cfg enginesim.Config, engines int, speed float64) (*fleet, error) {
	f := &fleet{
		model: cfg,
		start: time.Now(),
		speed: speed,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		life:  newLife(),
	}
	var err error
	f.engines, err = newEngines(cfg, engines)
	return f, err
}

func newEngines(cfg enginesim.Config, n int) ([]*enginesim.Engine, error) {
	engines := make([]*enginesim.Engine, n)
	for i := range engines {
		engine, err := enginesim.New(cfg)
		if err != nil {
			return nil, err
		}
		engines[i] = engine
		cfg.Seed++
	}
	return engines, nil
}

// restart replaces the engines by new ones, as if the process had been: what they
// held, computed and counted is gone.
func (f *fleet) restart() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	engines, err := newEngines(f.model, len(f.engines))
	if err != nil {
		return err
	}
	close(f.life.over)
	f.engines, f.life, f.totals, f.recent = engines, newLife(), totals{}, nil
	return nil
}

// current returns the life that is now.
func (f *fleet) current() *life {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.life
}

// now returns the model time.
func (f *fleet) now() time.Duration {
	return time.Duration(float64(time.Since(f.start)) * f.speed)
}

// run lets the engines follow the clock until ctx ends, then aborts what is
// left.
func (f *fleet) run(ctx context.Context) error {
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return errStopped
	}
	f.mu.Unlock()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(f.catchUp())
		select {
		case <-ctx.Done():
			f.mu.Lock()
			f.stopped = true
			f.mu.Unlock()
			close(f.done)
			return nil
		case <-timer.C:
		case <-f.wake:
		}
	}
}

// catchUp advances all engines to the present and returns how long nothing
// will happen.
func (f *fleet) catchUp() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(f.now())
	wait := time.Hour
	for _, engine := range f.engines {
		if at, ok := engine.NextStep(); ok {
			wall := time.Duration(math.Ceil(float64(at) / f.speed))
			wait = min(wait, max(wall-time.Since(f.start), minWait))
		}
	}
	return wait
}

// advance takes every step due at now, each at its own moment, so that a late
// timer does not slow the model. f.mu must be held.
func (f *fleet) advance(now time.Duration) {
	for _, engine := range f.engines {
		for at, ok := engine.NextStep(); ok && at <= now; at, ok = engine.NextStep() {
			for _, event := range engine.Step(at) {
				f.deliver(event)
			}
		}
	}
}

// deliver tells a choice what happened to its sequence. f.mu must be held.
func (f *fleet) deliver(event enginesim.Event) {
	c, ok := event.Sequence.Tag().(*choice)
	if !ok {
		return
	}
	switch event.Kind {
	case enginesim.EventFirstToken, enginesim.EventToken:
		if !c.gen.emitted {
			c.gen.emitted = true
			c.gen.firstCached = event.Sequence.Progress().CachedTokens
		}
		c.tokens += event.Tokens
		if c.gen.stream {
			c.gen.signal()
		}
	case enginesim.EventFinished:
		c.finished = true
		if c.prompt == len(c.gen.promptLens)-1 {
			c.gen.lastCached = event.Sequence.Progress().CachedTokens
		}
		f.record(c, event.Sequence.Progress(), false)
		c.gen.signal()
	}
}

// record books an ended sequence. f.mu must be held.
func (f *fleet) record(c *choice, p enginesim.Progress, aborted bool) {
	r := requestRecord{
		ID:               c.gen.id,
		Engine:           c.engine,
		PromptTokens:     p.PromptTokens,
		CachedTokens:     p.CachedTokens,
		GenerationTokens: p.Generated,
		TotalSeconds:     (p.Finished - p.Arrived).Seconds(),
		Aborted:          aborted,
	}
	if p.Admitted > 0 {
		r.QueueSeconds = (p.Admitted - p.Ready).Seconds()
	}
	if p.Generated > 0 {
		r.TTFTSeconds = (p.FirstToken - p.Arrived).Seconds()
	}
	f.totals.GenerationTokens += int64(p.Generated)
	if aborted {
		f.totals.Aborted++
	} else {
		f.totals.Finished++
		f.totals.PromptTokens += int64(p.PromptTokens)
		f.totals.CachedTokens += int64(p.CachedTokens)
	}
	if len(f.recent) == maxRecent {
		f.recent = append(f.recent[:0], f.recent[1:]...)
	}
	f.recent = append(f.recent, r)
}

// submit starts all choices of a generation, unless the life that its request began in
// is over. rank is the engine to use, or -1
// for the one that looks least loaded.
func (f *fleet) submit(ctx context.Context, gen *generation, rank int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || ctx.Value(lifeKey{}) != f.life {
		return errStopped
	}
	now := f.now()
	f.advance(now)
	f.totals.Requests++
	for _, c := range gen.choices {
		c.engine = rank
		if rank < 0 {
			c.engine = f.leastLoaded()
		}
		c.request.Tag, c.on = c, f.engines[c.engine]
		seq, err := c.on.Submit(now, c.request)
		if err != nil {
			f.abortLocked(gen, now)
			return err
		}
		c.seq = seq
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// leastLoaded returns the engine that vLLM's internal balancer picks: least
// 4·waiting + running, the first of equals, whatever they have cached. f.mu
// must be held.
func (f *fleet) leastLoaded() int {
	best, bestScore := 0, math.MaxInt
	for i, engine := range f.engines {
		arriving, waiting, running := engine.Load()
		if score := 4*(arriving+waiting) + running; score < bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// abort ends what is left of a generation whose client has gone.
func (f *fleet) abort(gen *generation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.advance(now)
	f.abortLocked(gen, now)
}

func (f *fleet) abortLocked(gen *generation, now time.Duration) {
	for _, c := range gen.choices {
		if c.seq != nil && c.on == f.engines[c.engine] && c.on.Abort(now, c.seq) {
			f.record(c, c.seq.Progress(), true)
		}
	}
}

// each calls do with every engine, brought up to the present.
func (f *fleet) each(do func(now time.Duration, engine *enginesim.Engine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.advance(now)
	for _, engine := range f.engines {
		do(now, engine)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// inFlight returns the sequences that have not ended.
func (f *fleet) inFlight() int {
	n := 0
	f.each(func(_ time.Duration, engine *enginesim.Engine) {
		arriving, waiting, running := engine.Load()
		n += arriving + waiting + running
	})
	return n
}

// stats returns the statistics of every engine at the present, and when they were
// started.
func (f *fleet) stats() (all []enginesim.Stats, started time.Time) {
	started = f.current().started
	f.each(func(_ time.Duration, engine *enginesim.Engine) { all = append(all, engine.Stats()) })
	return all, started
}
