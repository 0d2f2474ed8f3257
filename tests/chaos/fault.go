package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// fault is something that is broken for a time.
type fault struct {
	Kind   string
	Target string // an engine's id, a replica's name, redis
	From   time.Time
	To     time.Time // zero while it lasts
}

// The kinds of faults.
const (
	engineKilled    = "engine: SIGKILL, restart on its port"
	engineHangs     = "engine: SIGSTOP for 1-5 s"
	engineFreezes   = "engine: SIGSTOP for 18-22 s"
	engineCut       = "engine: connections reset, new ones refused"
	engineSilenced  = "engine: partition for 6-18 s, nothing passes"
	engineWarmsUp   = "engine: SIGKILL, restart, 503 on /health and requests"
	engineForgets   = "engine: loses its cache"
	engineErrs      = "engine: answers 500"
	engineBusy      = "engine: answers 429 with Retry-After"
	engineOverload  = "engine: answers 503"
	engineStreams   = "engine: resets streams after 3 events"
	engineFails     = "engine: error event after 3 events"
	engineSlow      = "engine: steps take 6 times as long"
	redisCut        = "redis: one replica is cut off, connections reset"
	redisSilenced   = "redis: one replica is cut off, nothing passes"
	redisHangs      = "redis: SIGSTOP"
	redisKilled     = "redis: SIGKILL, restart without data"
	redisFlushed    = "redis: FLUSHALL"
	replicaReload   = "replica: SIGHUP, another load_factor"
	replicaBad      = "replica: SIGHUP, a file that makes no sense"
	replicaShrinks  = "replicas: an engine is taken out of the file, and put back"
	replicaRestarts = "replica: SIGTERM, end in good order, new process"
	replicaKilled   = "replica: SIGKILL, new process"
)

var (
	// strays are the faults that a running engine has, without leaving.
	strays       = []string{engineForgets, engineErrs, engineBusy, engineOverload, engineStreams, engineFails, engineSlow}
	engineFaults = append([]string{engineKilled, engineHangs, engineFreezes, engineCut, engineSilenced, engineWarmsUp}, strays...)
	redisFaults  = []string{redisCut, redisSilenced, redisHangs, redisKilled, redisFlushed}
	routerFaults = []string{replicaReload, replicaBad, replicaShrinks, replicaRestarts, replicaKilled}
)

// breaker breaks things by chance, and mends them.
type breaker struct {
	fleet *fleet
	most  int       // engines that may be broken at a time
	tell  io.Writer // gets a line for each fault that ends

	mu     sync.Mutex
	faults []*fault
	out    map[string]bool // engines that are broken, or have only just been
	errs   []error         // what could not be broken, mended, or did not end well
	work   sync.WaitGroup
}

// begin notes a fault.
func (b *breaker) begin(kind, target string) *fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &fault{Kind: kind, Target: target, From: time.Now()}
	b.faults = append(b.faults, f)
	return f
}

// end notes its end.
func (b *breaker) end(f *fault, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.To = time.Now()
	fmt.Fprintf(b.tell, "%s for %v: %s, %s\n", f.From.Format("15:04:05.000"), f.To.Sub(f.From).Round(time.Millisecond), f.Kind, f.Target)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("%s, %s: %w", f.Kind, f.Target, err))
	}
}

// deck draws kinds so that each comes equally often.
type deck struct {
	rng   *rand.Rand
	kinds []string
	left  []string
}

func (d *deck) draw() string {
	if len(d.left) == 0 {
		d.left = append(d.left, d.kinds...)
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	kind := d.left[0]
	d.left = d.left[1:]
	return kind
}

// between is a time by chance.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// run breaks things until ctx ends, and returns when all is mended. Each group of things
// has a sequence of its own, so that the same seed breaks the same things in the same order,
// however long mending takes.
func (b *breaker) run(ctx context.Context, seed uint64, o *options) {
	lane := func(n uint64, kinds []string, low, high time.Duration, one func(ctx context.Context, rng *rand.Rand, kind string)) {
		if len(kinds) == 0 {
			return
		}
		b.work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, n)) //nolint:gosec // repeatable on purpose
			d := &deck{rng: rng, kinds: kinds}
			for pause(ctx, between(rng, low, high)) {
				one(ctx, rng, d.draw())
			}
		})
	}
	lane(1, o.engineFaults, o.gap/2, o.gap*3/2, b.breakEngine)
	lane(2, o.redisFaults, 4*o.gap/2, 4*o.gap*3/2, b.breakRedis)
	lane(3, o.routerFaults, 5*o.gap/2, 5*o.gap*3/2, b.breakReplica)
	<-ctx.Done()
	b.work.Wait()
}

// choose takes an engine that is well, "" when enough are broken.
func (b *breaker) choose(rng *rand.Rand) *engine {
	pick := rng.IntN(len(b.fleet.engines))
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.out) >= b.most {
		return nil
	}
	for i := range b.fleet.engines {
		if e := b.fleet.engines[(pick+i)%len(b.fleet.engines)]; !b.out[e.id] {
			b.out[e.id] = true
			return e
		}
	}
	return nil
}

// breakEngine breaks an engine, and leaves it alone for some time after that.
func (b *breaker) breakEngine(ctx context.Context, rng *rand.Rand, kind string) {
	e := b.choose(rng)
	length := between(rng, 2*time.Second, 6*time.Second)
	short, long := between(rng, time.Second, 5*time.Second), between(rng, 18*time.Second, 22*time.Second)
	if e == nil {
		return
	}
	switch kind {
	case engineHangs:
		length = short
	case engineFreezes:
		length = long
	case engineSilenced:
		length *= 3
	}
	b.work.Go(func() {
		f := b.begin(kind, e.id)
		b.end(f, b.strike(ctx, e, kind, length))
		pause(ctx, 3*time.Second)
		b.mu.Lock()
		delete(b.out, e.id)
		b.mu.Unlock()
	})
}

// strike breaks an engine, waits, and mends it.
func (b *breaker) strike(ctx context.Context, e *engine, kind string, length time.Duration) error {
	within := func(broken, mended string) error {
		err := b.fleet.fault(e, broken)
		pause(ctx, length)
		return errors.Join(err, b.fleet.fault(e, mended))
	}
	const clear = `{"clear":true}`
	switch kind {
	case engineKilled, engineWarmsUp:
		return b.replace(ctx, e, kind, length)
	case engineHangs, engineFreezes:
		err := e.signal(syscall.SIGSTOP)
		pause(ctx, length)
		return errors.Join(err, e.signal(syscall.SIGCONT))
	case engineCut:
		e.link.refuse()
		e.link.reset()
		pause(ctx, length)
		return e.link.accept()
	case engineSilenced:
		e.link.hold()
		pause(ctx, length)
		e.link.release()
		return nil
	case engineForgets:
		return b.fleet.fault(e, `{"lose_cache":true}`)
	case engineErrs:
		return within(`{"status":500,"count":-1}`, clear)
	case engineBusy:
		return within(`{"status":429,"count":-1,"retry_after":1}`, clear)
	case engineOverload:
		return within(`{"status":503,"count":-1}`, clear)
	case engineStreams:
		return within(`{"die_after_events":3}`, clear)
	case engineFails:
		return within(`{"error_after_events":3}`, clear)
	case engineSlow:
		return within(`{"slow":6}`, clear)
	}
	return fmt.Errorf("there is no fault %q", kind)
}

// replace kills an engine and starts another on its port. One that warms up says so for a
// time.
func (b *breaker) replace(ctx context.Context, e *engine, kind string, length time.Duration) error {
	e.link.refuse() // as the port of a process that is gone
	if err := e.kill(); err != nil {
		return err
	}
	pause(ctx, length/2)
	if err := b.fleet.runEngine(e); err != nil {
		return err
	}
	if kind == engineKilled {
		return e.link.accept()
	}
	if err := b.fleet.fault(e, `{"unhealthy":true,"status":503,"count":-1}`); err != nil {
		return err
	}
	if err := e.link.accept(); err != nil {
		return err
	}
	pause(ctx, length)
	return b.fleet.fault(e, `{"clear":true}`)
}

// breakRedis breaks Redis, or one replica's way to it.
func (b *breaker) breakRedis(ctx context.Context, rng *rand.Rand, kind string) {
	r := b.fleet.replicas[rng.IntN(len(b.fleet.replicas))]
	length := between(rng, time.Second, 8*time.Second)
	target := "redis"
	if kind == redisCut || kind == redisSilenced {
		target = r.name
	}
	f := b.begin(kind, target)
	var err error
	switch kind {
	case redisCut:
		r.redis.refuse()
		r.redis.reset()
		pause(ctx, length)
		err = r.redis.accept()
	case redisSilenced:
		r.redis.hold()
		pause(ctx, length)
		r.redis.release()
	case redisHangs:
		err = b.fleet.redis.signal(syscall.SIGSTOP)
		pause(ctx, length)
		err = errors.Join(err, b.fleet.redis.signal(syscall.SIGCONT))
	case redisKilled:
		if err = b.fleet.redis.kill(); err == nil {
			pause(ctx, length)
			err = b.fleet.redis.start()
		}
	case redisFlushed:
		err = b.fleet.tellRedis("FLUSHALL")
	default:
		err = fmt.Errorf("there is no fault %q", kind)
	}
	b.end(f, err)
}

// breakReplica does to a replica what operators do.
func (b *breaker) breakReplica(ctx context.Context, rng *rand.Rand, kind string) {
	r := b.fleet.replicas[rng.IntN(len(b.fleet.replicas))]
	e := b.fleet.engines[rng.IntN(len(b.fleet.engines))]
	length := between(rng, 2*time.Second, 5*time.Second)
	f := b.begin(kind, r.name)
	var err error
	switch kind {
	case replicaReload:
		err = b.reload(ctx, variant{loadFactor: 3}, length, r)
	case replicaBad:
		err = b.reload(ctx, variant{broken: true}, length, r)
	case replicaShrinks:
		err = b.reload(ctx, variant{without: e.id}, length, b.fleet.replicas...)
	case replicaRestarts:
		err = b.fleet.restart(context.WithoutCancel(ctx), r)
	case replicaKilled:
		if err = r.kill(); err == nil {
			err = b.fleet.run(context.WithoutCancel(ctx), r)
		}
	default:
		err = fmt.Errorf("there is no fault %q", kind)
	}
	b.end(f, err)
}

// reload gives replicas another configuration for a time.
func (b *breaker) reload(ctx context.Context, v variant, length time.Duration, of ...*replica) error {
	set := func(v variant) (errs error) {
		for _, r := range of {
			errs = errors.Join(errs, b.fleet.configure(r, v), r.signal(syscall.SIGHUP))
		}
		return errs
	}
	err := set(v)
	pause(ctx, length)
	return errors.Join(err, set(plain))
}
