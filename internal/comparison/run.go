package comparison

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
)

// Job is one run.
type Job struct {
	// Workload is what is asked, with the seed of Fleet.
	Workload *workload.Workload
	// Limit ends the run after that many requests; 0 plays them all.
	Limit int
	// Fleet is whom it is asked of, the strategy included.
	Fleet replay.Config
}

// Run plays jobs side by side, as many at a time as there are processors, and hands over
// each result with the number of its job. told is called with how many more requests are
// through. Both are called from several goroutines. The first error, or the end of the
// context, ends them all.
func Run(ctx context.Context, jobs []Job, told func(requests int), take func(job int, r *replay.Result)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, job := range jobs {
		group.Go(func() error {
			result, err := job.play(ctx, told)
			if err == nil {
				take(i, result)
			}
			return err
		})
	}
	return group.Wait()
}

// play runs one job to its end.
func (j Job) play(ctx context.Context, told func(requests int)) (*replay.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	through := 0
	j.Fleet.Progress = func(ended int) error {
		told(ended - through)
		through = ended
		return ctx.Err()
	}
	fleet, err := replay.New(j.Fleet)
	if err != nil {
		return nil, err
	}
	source := j.Workload.Play(j.Fleet.Seed)
	if j.Limit > 0 {
		source = &limited{source, j.Limit}
	}
	result, err := fleet.Run(source)
	if err != nil {
		return nil, err
	}
	told(result.Requests - through)
	if result.Requests > 0 && result.Refused == result.Requests {
		return nil, &refusedError{result.Requests, j.Fleet.Engine.KVTokens}
	}
	return result, nil
}

// refusedError is a run in which no request fits an engine.
type refusedError struct{ requests, kvTokens int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("not one of %d requests fits an engine's KV cache of %d tokens, prompt and answer together: raise --kv-tokens", e.requests, e.kvTokens)
}

// limited is the beginning of a source.
type limited struct {
	source workload.Source
	left   int
}

// Next implements [workload.Source].
func (l *limited) Next() (workload.Request, bool) {
	if l.left == 0 {
		return workload.Request{}, false
	}
	r, ok := l.source.Next()
	if ok {
		l.left--
	}
	return r, ok
}

// Ended implements [workload.Source].
func (l *limited) Ended(r *workload.Request, at time.Duration, answered bool) (workload.Request, bool) {
	next, ok := l.source.Ended(r, at, answered)
	if ok = ok && l.left > 0; ok {
		l.left--
	}
	return next, ok
}
