package redisindex

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

const (
	// flushEvery is the least time from the end of one write to the next, unless there is
	// enough for a whole batch: with what the keeper does, a router makes no more than a
	// hundred round trips a second. flushRetry is the time after one that failed.
	flushEvery = 10 * time.Millisecond
	flushRetry = 100 * time.Millisecond
	// retryEvery is how soon writes are tried again that failed while others were done, and
	// retryLast how often at last, each time a few of them, if they fail again and again: one
	// node of a cluster may be away for long, or the server's memory full.
	retryEvery = 250 * time.Millisecond
	retryLast  = 2 * time.Second
	// maxTries is how often a command is tried that the server refuses.
	maxTries = 5
	// farewell bounds the last writes of a router that stops.
	farewell = 300 * time.Millisecond
)

// writer carries what is published into Redis.
type writer struct {
	*Index

	pending pending       // to be done again
	retried time.Time     // when they last were
	retry   time.Duration // until they are again; 0: they went well
	taken   int           // uses that are not wholly written
	away    bool          // nothing was done at the last try
	teller  teller
}

// write runs the writer until ctx ends; what waits then is written if that is quick.
func (x *Index) write(ctx context.Context) {
	w := &writer{Index: x}
	for {
		select {
		case <-ctx.Done():
			w.leave(ctx)
			return
		case <-x.queue.wake:
		}
		pause := flushEvery
		if !w.flush(ctx) {
			pause = flushRetry
			signal(x.queue.wake)
		}
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-x.queue.full:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

// leave writes what is left, and that this router has no load any more.
func (w *writer) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if w.own.Load() != nil {
		w.own.Store(&ownReport{at: w.config.Now()})
	}
	for w.flush(ctx) && w.queue.len() > 0 {
	}
}

// flush writes what waits, in one round trip. It reports whether that went well; what
// failed is kept for the next time.
func (w *writer) flush(ctx context.Context) bool {
	clock, ok := w.clock.conversion()
	if !ok {
		return false // not connected yet
	}
	batch, again := w.due(clock)
	if len(batch) == 0 {
		return true
	}
	outcomes, err := w.exchange(ctx, batch)
	if w.away = err != nil; w.away {
		w.pending.back(batch)
		return false
	}
	w.counts.batches.Add(1)
	w.pace(outcomes[:again])
	w.settle(ctx, batch, outcomes)
	if w.pending.len() == 0 {
		w.counts.written.Add(uint64(w.taken))
		w.taken = 0
		// While more is lost, it would be done over and over.
		if w.queue.len() < maxQueued/2 {
			if since := w.news.found(); since != 0 {
				w.rewrite(since)
			}
		}
	}
	if w.queue.len() > 0 {
		signal(w.queue.wake)
	}
	return true
}

// due returns the writes that are to be done now: first some of those that failed, again of
// them, if it is time; then what waits, unless Redis is away and there is enough to find that
// out with.
func (w *writer) due(clock conversion) (batch []write, again int) {
	if now := time.Now(); w.away || now.Sub(w.retried) >= w.retry {
		most := maxPending
		if w.retry > retryEvery {
			most = probeWrites
		}
		batch, w.retried = w.pending.take(most), now
		again = len(batch)
	}
	if !w.away || len(batch) == 0 {
		batch = append(batch, w.next(clock)...)
	}
	return batch, again
}

// pace decides when writes are tried again, from what became of those that just were.
func (w *writer) pace(again []outcome) {
	failed := slices.ContainsFunc(again, func(o outcome) bool {
		_, err := o.failure()
		return err != nil
	})
	switch {
	case failed:
		w.retry = min(2*w.retry, retryLast)
	case len(again) > 0 || w.pending.len() == 0:
		w.retry = 0
	}
}

// next turns what waits into commands. Sets come first, so that whoever reads them after a
// record of the stream was written finds in them what it tells.
func (w *writer) next(clock conversion) []write {
	var writes []write
	told := make(map[*pool]*encoder)
	tell := func(p *pool) *encoder {
		if told[p] == nil {
			told[p] = newEncoder(w.replica, &p.told)
		}
		return told[p]
	}
	for b, at := range w.news.take() {
		if b.gone.Load() {
			continue
		}
		to := clock.fleet(at)
		b.raise(to)
		writes = append(writes, w.horizonWrite(b, to))
		tell(b.home).addHorizon(horizon{backend: b.label, at: to})
	}
	uses, ends := w.queue.take()
	for _, u := range uses {
		if u.promise == 0 {
			w.taken++
		}
	}
	for b, g := range gather(uses, clock) {
		writes = append(writes, w.scoreWrites(b, g)...)
		for _, c := range g.chains {
			tell(b.home).addChain(c)
		}
	}
	for _, e := range ends {
		tell(e.backend.home).addEnd(end{promise: e.promise, kept: e.kept})
	}
	writes = append(writes, w.pinWrites(clock, tell)...)
	for p, r := range w.teller.reports(w.own.Load(), w.allPools(), clock) {
		tell(p).addReport(r)
	}
	for p, e := range told {
		for _, m := range e.messages() {
			writes = append(writes, w.streamWrite(p, m))
		}
	}
	return writes
}

// settle keeps the writes that have to be tried again.
func (w *writer) settle(ctx context.Context, batch []write, outcomes []outcome) {
	for i, one := range batch {
		w.counts.commands.Add(uint64(len(outcomes[i])))
		kind, err := outcomes[i].failure()
		if err == nil {
			if one.done != nil && len(outcomes[i]) > 0 {
				one.done(outcomes[i][0])
			}
			continue
		}
		err = w.usable(ctx, one.key, err)
		if !kind.passes() {
			one.tries++
		}
		if one.tries == maxTries {
			w.config.Logger.Error("redis: the server refuses a command", slog.String("key", one.key), slog.String("error", err.Error()))
			w.giveUp(one)
			continue
		}
		w.pending.add(one)
		w.retry = max(w.retry, retryEvery)
	}
	for _, one := range w.pending.excess() {
		w.giveUp(one)
	}
}

// giveUp notes that a write will not be done.
func (w *writer) giveUp(one write) {
	w.counts.abandoned.Add(1)
	if one.lost != nil {
		one.lost()
	}
}

// lose takes in that uses of a backend's blocks will not be written as they are. Its memory
// has them as observed from then on, which they are, so that they are found there later,
// and that they are lost is noted. What was forgotten meanwhile is left out.
func (x *Index) lose(b *backend, uses []use) {
	for _, u := range slices.Backward(uses) { // oldest first
		if clock, ok := x.clock.conversion(); ok && clock.fleet(u.last) <= moment(b.horizon.Load()) {
			continue
		}
		b.resident.Record(u.keys, u.last, kvindex.Observed)
		x.news.lose(u.last)
	}
}

// rewrite has everything written from the memory that was used at since or later.
func (x *Index) rewrite(since kvindex.Stamp) {
	for _, b := range x.all() {
		x.tasks.add(b, task{rewrite: true, since: since})
	}
}
