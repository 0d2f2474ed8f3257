package health

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// reread is how often the list of backends is looked at, so that one that arrives is
// asked soon.
const reread = time.Second

// visit goes to every base URL in the list, over and over until ctx ends: to one that
// arrives at once, to each again an interval after the last visit has ended, to one that
// has left no more.
func visit(ctx context.Context, interval time.Duration, list func() []*backends.Backend, to func(ctx context.Context, url string)) {
	var loops sync.WaitGroup
	defer loops.Wait()
	ends := make(map[string]context.CancelFunc)
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		groups := backends.ByURL(list())
		for url := range groups {
			if ends[url] != nil {
				continue
			}
			own, end := context.WithCancel(ctx)
			ends[url] = end
			loops.Go(func() { revisit(own, interval, url, to) })
		}
		for url, end := range ends {
			if groups[url] == nil {
				end()
				delete(ends, url)
			}
		}
		select {
		case <-ctx.Done():
			for _, end := range ends {
				end()
			}
			return
		case <-tick.C:
		}
	}
}

func revisit(ctx context.Context, interval time.Duration, url string, to func(ctx context.Context, url string)) {
	for {
		to(ctx, url)
		wait := time.NewTimer(jittered(interval))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// jittered is a time give or take a tenth, so that engines are not asked in step.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // no secret
}
