package kubernetes

import (
	"context"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/warmroute/warmroute/backends/discovery"
)

// repeat is how often the same answer is told again while the watch goes on.
const repeat = 10 * time.Second

// settle is how long changes are gathered: of an endpoint that moves from one slice to
// another, the first change alone says that it is gone.
const settle = 50 * time.Millisecond

// retry is how failed requests are repeated: soon at first, and then every half minute.
var retry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 30 * time.Second}

// Source watches the EndpointSlices of a service.
type Source struct {
	config  Config
	connect func() (api, func(), error)
	retry   wait.Backoff
	repeat  time.Duration
}

var _ discovery.Source = (*Source)(nil)

// New returns a source. It does not look for the cluster before it runs.
func New(c Config) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	connect := func() (api, func(), error) { return connect(c) }
	return &Source{config: c, connect: connect, retry: retry, repeat: repeat}, nil
}

// Run implements [discovery.Source].
func (s *Source) Run(ctx context.Context, tell discovery.Tell) {
	next := s.retry
	for {
		to, done, err := s.connect()
		if err == nil {
			defer done()
			s.follow(ctx, to, tell)
			return
		}
		if ctx.Err() != nil {
			return
		}
		tell(nil, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(next.Step()):
		}
	}
}

// follow tells what the slices of the service name, until ctx ends.
func (s *Source) follow(ctx context.Context, to api, tell discovery.Tell) {
	// The reflector would log with a logger of its own.
	ctx = klog.NewContext(ctx, klog.Logger{})
	view := newView()
	w := &watcher{ctx: ctx, api: to, view: view, selector: discoveryv1.LabelServiceName + "=" + s.config.Service}
	lw := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	reflector := cache.NewReflectorWithOptions(lw, &discoveryv1.EndpointSlice{}, view, cache.ReflectorOptions{
		Name: "warmroute", Logger: new(klog.Logger), Backoff: &s.retry,
	})
	var running sync.WaitGroup
	running.Go(func() { reflector.RunWithContext(ctx) })
	defer w.end()
	defer running.Wait()

	tick := time.NewTicker(s.repeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-view.changed:
			if !sleep(ctx, settle) {
				return
			}
		}
		s.say(tell, view)
	}
}

// say tells what the view has, once it has anything.
func (s *Source) say(tell discovery.Tell, view *view) {
	all, known, err := view.read()
	if err != nil {
		tell(nil, plain(err))
		return
	}
	if !known {
		return
	}
	tell(specs(all, s.config.Port, s.config.Form))
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// watcher lists and watches for a reflector, and notes what fails.
type watcher struct {
	ctx      context.Context //nolint:containedctx // the reflector does not pass its own on to lists
	api      api
	view     *view
	selector string

	lists sync.RWMutex // held for reading by each list: the reflector does not wait for them
	over  bool         // no more are made; guarded by lists
}

// end waits for the lists that are under way. Those that come later fail.
func (w *watcher) end() {
	w.lists.Lock()
	defer w.lists.Unlock()
	w.over = true
}

func (w *watcher) list(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	w.lists.RLock()
	defer w.lists.RUnlock()
	if w.over {
		return nil, context.Canceled
	}
	o.LabelSelector = w.selector
	list, err := w.api.List(w.ctx, o)
	if err != nil {
		w.view.failed(err)
		return nil, err
	}
	return list, nil
}

func (w *watcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = w.selector
	events, err := w.api.Watch(ctx, o)
	if err != nil {
		// A server that does not bring the slices first is asked for a list next, and what
		// comes of that counts.
		if o.SendInitialEvents == nil || !answered(err) || apierrors.IsTooManyRequests(err) {
			w.view.failed(err)
		}
		return nil, err
	}
	w.view.watching(o)
	return events, nil
}
