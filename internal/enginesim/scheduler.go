package enginesim

import "time"

// NextStep returns the moment [Engine.Step] has something to do: the end of the
// step under way, or the start of the next. It reports false while there is
// nothing to compute.
func (e *Engine) NextStep() (at time.Duration, ok bool) {
	switch {
	case e.stepping:
		return max(e.clock, e.stepEnd), true
	case e.sleeping:
		return 0, false
	case e.waiting.len() > 0 || len(e.running) > 0:
		return e.clock, true
	case e.arriving.len() > 0:
		return max(e.clock, e.arriving.front().ready), true
	default:
		return 0, false
	}
}

// Step ends the step under way if it is over at now and begins the next one.
// Calling it at the moments of [Engine.NextStep] makes the model exact; between
// them it does nothing. The events are those of both, in order, and are valid
// until the next call.
func (e *Engine) Step(now time.Duration) []Event {
	e.events = e.events[:0]
	now = e.tick(now)
	if e.stepping {
		if now < e.stepEnd {
			return nil
		}
		e.finishStep()
	}
	if !e.sleeping {
		e.beginStep(now)
	}
	return e.events
}

// beginStep fills a batch and sets the time it takes: first the running
// sequences in their order, decodes and the rest of chunked prefills alike, then
// waiting ones as long as budget, slots and blocks last, as vLLM's scheduler
// does.
func (e *Engine) beginStep(now time.Duration) {
	for e.arriving.len() > 0 && e.arriving.front().ready <= now {
		s := e.arriving.popFront()
		s.state = StateWaiting
		e.waiting.pushBack(s)
	}
	e.batch = e.batch[:0]
	work := stepWork{profile: &e.cfg.Profile, budget: e.cfg.MaxBatchedTokens}
	preempted := e.scheduleRunning(now, &work)
	if !preempted {
		e.scheduleWaiting(now, &work)
	}
	if len(e.batch) == 0 {
		return
	}
	took := work.duration() * e.slow
	if e.cfg.Jitter > 0 {
		took *= max(0.3, 1+e.cfg.Jitter*e.rng.NormFloat64())
	}
	e.stepping, e.stepEnd = true, now+time.Duration(took)
	e.stats.Steps++
	e.stats.Busy += e.stepEnd - now
	e.stats.ComputedTokens += int64(work.tokens)
	e.stats.IterationTokens.observe(float64(work.tokens))
}

// stepWork adds up what a step computes.
type stepWork struct {
	profile *Profile
	budget  int // tokens that may still be added
	tokens  int
	batch   int     // decoding sequences
	context int     // their tokens
	prefill float64 // nanoseconds
}

func (w *stepWork) add(s *Sequence, n int) {
	w.budget -= n
	w.tokens += n
	if s.decoding() {
		w.batch++
		w.context += s.computed + 1
		return
	}
	w.prefill += w.profile.prefill(n, s.computed)
}

// duration returns the step's time in nanoseconds.
func (w *stepWork) duration() float64 {
	return float64(w.profile.StepFloor) + w.profile.decode(w.batch, w.context) + w.prefill
}

// scheduleRunning gives each running sequence the tokens it needs next. When
// blocks run out, the sequence admitted last is preempted. It reports whether
// that happened.
func (e *Engine) scheduleRunning(now time.Duration, work *stepWork) (preempted bool) {
	for i := 0; i < len(e.running) && work.budget > 0; i++ {
		s := e.running[i]
		n := min(s.total()-s.computed, work.budget)
		for need := e.blocksFor(s, n); need > e.cache.free; need = e.blocksFor(s, n) {
			last := e.running[len(e.running)-1]
			e.preempt(last)
			e.emit(now, EventPreempted, last, last.total())
			preempted = true
			if last == s {
				return true
			}
		}
		e.schedule(s, n, work)
	}
	return preempted
}

// scheduleWaiting admits waiting sequences in order. The first that cannot be
// admitted stops all behind it.
func (e *Engine) scheduleWaiting(now time.Duration, work *stepWork) {
	for e.waiting.len() > 0 && work.budget > 0 && len(e.running) < e.cfg.MaxSeqs {
		s := e.waiting.front()
		hits, idle := e.lookup(s)
		cached := hits * e.cfg.BlockSize
		n := min(s.total()-cached, work.budget)
		reserve := n
		if !e.cfg.AdmitPartial {
			reserve = s.total() - cached
		}
		if blocksOf(cached+reserve, e.cfg.BlockSize)-hits > e.cache.free-idle {
			if e.cfg.RecountLookups && s.admissions == 0 {
				e.countLookup(s, cached)
			}
			return
		}
		e.waiting.popFront()
		e.admit(now, s, hits)
		e.schedule(s, n, work)
	}
}

// lookup returns how many leading blocks of a waiting sequence are cached, and
// how many of those are on the free list. Its last token is always computed, so
// the block that ends with it is never one of them.
func (e *Engine) lookup(s *Sequence) (hits, idle int) {
	if s.req.SkipCacheRead || e.cfg.DisablePrefixCaching {
		return 0, 0
	}
	return e.cache.lookup(s.req.Blocks, (s.total()-1)/e.cfg.BlockSize)
}

// admit moves a sequence that left the waiting queue into the running batch
// with its cached blocks.
func (e *Engine) admit(now time.Duration, s *Sequence, hits int) {
	if s.table == nil {
		s.table = make([]int32, 0, blocksOf(s.req.PromptTokens+s.req.OutputTokens, e.cfg.BlockSize))
	}
	s.table = e.cache.share(s.table, s.req.Blocks[:hits])
	s.named = hits
	s.computed = hits * e.cfg.BlockSize
	s.state = StateRunning
	e.running = append(e.running, s)
	if s.admissions == 0 {
		s.admitted = now
		s.cached = s.computed
		e.countLookup(s, s.cached)
	}
	s.admissions++
	e.emit(now, EventAdmitted, s, s.computed)
}

func (e *Engine) countLookup(s *Sequence, cached int) {
	if s.req.SkipCacheRead || e.cfg.DisablePrefixCaching {
		return
	}
	e.stats.PrefixQueries += int64(s.total())
	e.stats.PrefixHits += int64(cached)
}

// schedule puts the next n tokens of a running sequence into the step, for
// which there are free blocks. The blocks that these tokens fill become visible
// to lookups at once.
func (e *Engine) schedule(s *Sequence, n int, work *stepWork) {
	work.add(s, n)
	if need := e.blocksFor(s, n); need > 0 {
		s.table = e.cache.take(s.table, need)
	}
	s.computed += n
	s.scheduled = n
	e.batch = append(e.batch, s)
	if e.cfg.DisablePrefixCaching {
		return
	}
	for full := min(s.computed/e.cfg.BlockSize, len(s.req.Blocks)); s.named < full; s.named++ {
		e.cache.name(s.table[s.named], s.req.Blocks[s.named])
	}
}

// blocksFor returns how many more blocks a sequence needs for n more tokens.
func (e *Engine) blocksFor(s *Sequence, n int) int {
	return blocksOf(s.computed+n, e.cfg.BlockSize) - len(s.table)
}

// blocksOf returns how many blocks hold that many tokens.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// preempt takes the blocks of a running sequence and queues it before all
// others. What it computed stays cached until its blocks are needed.
func (e *Engine) preempt(s *Sequence) {
	e.leaveBatch(s)
	s.state = StateWaiting
	s.preemptions++
	e.waiting.pushFront(s)
	e.stats.Preemptions++
}

// finishStep hands out the tokens of the step under way. A sequence that left
// the batch meanwhile gets none.
func (e *Engine) finishStep() {
	now := e.stepEnd
	e.stepping = false
	finished := false
	for _, s := range e.batch {
		if s.scheduled == 0 {
			continue
		}
		s.scheduled = 0
		if s.computed < s.total() {
			continue
		}
		e.countPrefill(s)
		if s.req.OutputTokens > 0 {
			e.generate(now, s)
		}
		if s.generated == s.req.OutputTokens {
			e.freeBlocks(s)
			e.end(now, s, s.req.Finish)
			e.emit(now, EventFinished, s, s.generated)
			finished = true
		}
	}
	if finished {
		e.dropFinished()
	}
}

// generate adds one output token to a sequence.
func (e *Engine) generate(now time.Duration, s *Sequence) {
	s.generated++
	e.stats.GenerationTokens++
	if s.generated == 1 {
		s.first = now
		e.stats.TimeToFirstToken.seconds(now - s.arrived)
		e.emit(now, EventFirstToken, s, 1)
	} else {
		e.stats.InterTokenLatency.seconds(now - s.last)
		e.emit(now, EventToken, s, 1)
	}
	s.last = now
}

// dropFinished takes finished sequences out of the running batch.
func (e *Engine) dropFinished() {
	kept := e.running[:0]
	for _, s := range e.running {
		if s.state == StateRunning {
			kept = append(kept, s)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
}

func (e *Engine) emit(at time.Duration, kind EventKind, s *Sequence, tokens int) {
	e.events = append(e.events, Event{At: at, Kind: kind, Tokens: tokens, Sequence: s})
}
