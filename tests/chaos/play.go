package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// How much more a replica may hold at rest after the faults than before the first request.
const (
	moreGoroutines = 12
	moreFiles      = 12
	// moreHeap is what is bounded by the configuration and filled by then: 65,536 entries of
	// the index at some 150 bytes, 2 MiB of requests to remember, queues, pools of buffers.
	moreHeap = 40 << 20
	moreRSS  = 160 << 20
)

// play runs the fleet, the traffic and the faults, and judges.
func play(ctx context.Context, o *options) (*report, error) {
	dir := o.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f := &fleet{dir: dir}
	defer f.close() //nolint:errcheck // the processes end with this one in any case
	fmt.Fprintf(o.progress, "building, and starting %d engines, 2 replicas and Redis; logs are in %s\n", o.engines, dir)
	if err := launch(ctx, f, o); err != nil {
		return nil, err
	}
	r := &report{Mode: o.mode, Seed: o.seed, Wanted: o.rate}
	d := newDoors(f)
	if left := f.settled(ctx); len(left) > 0 {
		return nil, fmt.Errorf("the fleet does not begin as it must: %v", left)
	}
	before, err := r.rest(f)
	if err != nil {
		return nil, err
	}
	r.Before = d.converse(ctx, o.seed, o.conversations)

	b := &breaker{fleet: f, most: max(1, o.engines/3), tell: o.progress, out: make(map[string]bool)}
	t := newTraffic(d, o.seed)
	w := &watch{fleet: f}
	storm(ctx, o, b, t, w, &r.Held)
	r.Vitals = w.samples
	r.Lasted, r.Rate = o.lasts, float64(t.sent)/(o.lasts+o.calm).Seconds()
	r.Skipped = t.skipped
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}

	r.After = d.converse(ctx, o.seed+1, o.conversations)
	d.close()
	r.judgeRequests(f, b, t)
	r.judgeNormal()
	if w.negative > 0 {
		r.wrong("in-flight counts were below 0, in %d of %d looks", w.negative, len(w.samples))
	}
	for _, left := range f.settled(ctx) {
		r.wrong("at the end: %s", left)
	}
	r.judgeRest(ctx, f, before)
	r.judgeVitals(o, w.samples)
	for _, one := range f.replicas {
		for _, text := range panics(one.process) {
			r.wrong("%s", text)
		}
	}
	if err := f.close(); err != nil {
		return r, err
	}
	return r, nil
}

// storm sends traffic while things break, and some time longer.
func storm(ctx context.Context, o *options, b *breaker, t *traffic, w *watch, h *held) {
	began := time.Now()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	breaking, mend := context.WithTimeout(ctx, o.lasts)
	defer mend()
	sending, hush := context.WithTimeout(ctx, o.lasts+o.calm)
	defer hush()
	done := make(chan struct{}, 4)
	go func() { h.run(watching); done <- struct{}{} }()
	go func() { w.run(watching, time.Second); done <- struct{}{} }()
	go func() { b.run(breaking, o.seed, o); done <- struct{}{} }()
	go func() { t.run(sending, o.rate); done <- struct{}{} }()
	for pause(sending, o.every) {
		fmt.Fprint(o.progress, w.line(time.Since(began), t))
	}
	t.requests.Wait()
	unwatch()
	for range cap(done) {
		<-done
	}
}

// line is a line of progress.
func (w *watch) line(since time.Duration, t *traffic) string {
	t.mu.Lock()
	sent, failed := 0, len(t.failed)
	for _, one := range t.tallies {
		sent += one.Sent
	}
	t.mu.Unlock()
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%8v  %7d ended  %5d failed  %4d under way", since.Round(time.Second), sent, failed, len(t.under)))
	for _, r := range w.fleet.replicas {
		v, err := w.fleet.observe(r, false)
		if err != nil {
			text.WriteString(fmt.Sprintf(" | %s is away", r.name))
			continue
		}
		text.WriteString(fmt.Sprintf(" | %s: RSS %s, heap %s, %.0f goroutines, %.0f files", r.name, mib(v.RSS), mib(v.Heap), v.Goroutines, v.FDs))
	}
	return text.String() + "\n"
}

// rest looks at all replicas at rest.
func (r *report) rest(f *fleet) (all []vitals, err error) {
	for _, one := range f.replicas {
		v, err := f.observe(one, true)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// judgeRequests judges every request that failed.
func (r *report) judgeRequests(f *fleet, b *breaker, t *traffic) {
	r.Dialects = t.tallies
	j := &judge{faults: b.faults}
	if err := j.read(f.replicas, t.failed); err != nil {
		r.wrong("logs: %v", err)
	}
	with := make(map[*fault]int)
	for _, q := range t.failed {
		fault, lost := j.verdict(q)
		switch {
		case fault != nil:
			with[fault]++
			r.Dialects[q.d.name].Cut++
		case lost != "":
			r.Dialects[q.d.name].Lost++
			r.wrong("%s: %s (%s, %s, %s, attempts %d, engines %v, %v to %v, status %d): %s; the router noted: %s", q.id, lost, q.d.name, q.replica, q.ending,
				q.attempts, q.engines, q.began.Format("15:04:05.000"), q.ended.Format("15:04:05.000"), q.status, q.text, j.logged[q.id])
		}
	}
	for _, err := range b.errs {
		r.wrong("%v", err)
	}
	r.count(b.faults, with)
}

// judgeNormal judges the requests before and after the faults.
func (r *report) judgeNormal() {
	for _, n := range []*normal{r.Before, r.After} {
		for _, failed := range n.Failed {
			r.wrong("%s", failed)
		}
		if n.Followed < n.Turns*9/10 {
			r.wrong("only %d of %d second turns found their prompt cached", n.Followed, n.Turns)
		}
	}
	if limit := 3*r.Before.Median + 200*time.Millisecond; r.After.Median > limit {
		r.wrong("normal requests take %v after the faults, and took %v before", r.After.Median, r.Before.Median)
	}
}

// judgeRest compares the replicas at rest with what they were before the first request.
func (r *report) judgeRest(ctx context.Context, f *fleet, before []vitals) {
	var wrong []string
	look := func() bool {
		wrong, r.Rest = nil, nil
		after, err := r.rest(f)
		if err != nil {
			wrong = append(wrong, err.Error())
			return false
		}
		for i, v := range after {
			was := before[i]
			r.Rest = append(r.Rest, restRow{Replica: v.Replica, Before: was, After: v})
			for _, one := range []struct {
				what           string
				was, now, more float64
			}{
				{"goroutines", was.Goroutines, v.Goroutines, moreGoroutines},
				{"open files", was.FDs, v.FDs, moreFiles},
				{"bytes of live heap", was.Heap, v.Heap, moreHeap},
				{"bytes of memory", was.RSS, v.RSS, moreRSS},
			} {
				if one.now > one.was+one.more {
					wrong = append(wrong, fmt.Sprintf("%s has %.0f %s at rest, and had %.0f before", v.Replica, one.now, one.what, one.was))
				}
			}
		}
		return len(wrong) == 0
	}
	_ = await(ctx, "replicas are at rest", patience, look) // wrong says what is
	r.Wrong = append(r.Wrong, wrong...)
}

// judgeVitals judges whether what a soak's replicas hold while they work is flat: the last
// quarter of the time against the second.
func (r *report) judgeVitals(o *options, samples []vitals) {
	if o.mode != "soak" || len(samples) == 0 {
		return
	}
	began := samples[0].At
	quarter := o.lasts / 4
	median := func(replica string, n int, of func(vitals) float64) float64 {
		var all []float64
		for _, v := range samples {
			if since := v.At.Sub(began); v.Replica == replica && since >= time.Duration(n)*quarter && since < time.Duration(n+1)*quarter {
				all = append(all, of(v))
			}
		}
		slices.Sort(all)
		if len(all) == 0 {
			return 0
		}
		return all[len(all)/2]
	}
	for _, rest := range r.Rest {
		for _, one := range []struct {
			what string
			of   func(vitals) float64
			more float64
		}{
			{"bytes of memory", func(v vitals) float64 { return v.RSS }, 16 << 20},
			{"bytes of heap", func(v vitals) float64 { return v.Heap }, 16 << 20},
			{"goroutines", func(v vitals) float64 { return v.Goroutines }, 40},
			{"open files", func(v vitals) float64 { return v.FDs }, 40},
		} {
			second, last := median(rest.Replica, 1, one.of), median(rest.Replica, 3, one.of)
			fmt.Fprintf(o.progress, "%s: %.0f %s in the second quarter, %.0f in the last (medians)\n", rest.Replica, second, one.what, last)
			if last > second*1.1+one.more {
				r.wrong("%s: %.0f %s in the second quarter, %.0f in the last", rest.Replica, second, one.what, last)
			}
		}
	}
}
