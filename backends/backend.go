package backends

import (
	"bytes"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Backend is one addressable KV cache. Its identity never changes; its load, state
// and models do, and may be read at any time without a lock.
type Backend struct {
	// ID is host:port[/path][#rank], lower case.
	ID string
	// URL is the canonical base URL. It must not be changed.
	URL *url.URL
	// Rank is the data-parallel rank, [NoRank] when the URL is one cache.
	Rank int

	address string // of URL

	weight    atomic.Uint64 // float64 bits
	threshold atomic.Int64
	instance  atomic.Pointer[string]

	inFlight atomic.Int64
	peers    atomic.Int64

	health health
	models atomic.Pointer[listing]
}

// Model is one entry of an engine's /v1/models.
type Model struct {
	// ID is the model's or adapter's name.
	ID string
	// Adapter says that it is a LoRA adapter of another model.
	Adapter bool
	// JSON is the entry as the engine wrote it, with all its fields.
	JSON []byte
}

func newBackend(spec Spec) (*Backend, error) {
	u, id, err := ParseURL(spec.URL)
	if err != nil {
		return nil, err
	}
	b := &Backend{ID: spec.ID(id), URL: u, Rank: spec.Rank, address: u.String()}
	b.configure(spec)
	return b, nil
}

// configure takes over what a new Spec of the same backend may change.
func (b *Backend) configure(spec Spec) {
	b.weight.Store(floatBits(spec.Weight))
	b.threshold.Store(int64(spec.ConcurrencyThreshold))
	b.SetUnreachable(spec.Unready)
	if b.instance.Load() == nil || spec.Instance != "" {
		b.instance.Store(&spec.Instance)
	}
}

// is reports whether a new Spec with the same id is of the engine that this is.
func (b *Backend) is(spec Spec, url string) bool {
	now := *b.instance.Load()
	return b.address == url && (now == "" || spec.Instance == "" || now == spec.Instance)
}

// Spec describes the backend as it is now.
func (b *Backend) Spec() Spec {
	return Spec{
		URL: b.address, Rank: b.Rank, Weight: b.Weight(), ConcurrencyThreshold: b.ConcurrencyThreshold(),
		Unready: b.Unready(), Instance: *b.instance.Load(),
	}
}

// Address is the canonical base URL as text.
func (b *Backend) Address() string { return b.address }

// Weight is the backend's share of load relative to others, above 0.
func (b *Backend) Weight() float64 { return floatFrom(b.weight.Load()) }

// ConcurrencyThreshold is the backend's own threshold, 0 when it uses the pool's.
func (b *Backend) ConcurrencyThreshold() int { return int(b.threshold.Load()) }

// InFlight is how many requests all router replicas have sent and not finished; a
// request for n answers counts n.
func (b *Backend) InFlight() int { return int(b.inFlight.Load() + b.peers.Load()) }

// OwnInFlight is how many of them this router has sent.
func (b *Backend) OwnInFlight() int { return int(b.inFlight.Load()) }

// SetPeersInFlight sets what the other router replicas have in flight here. It returns by
// how much that is fewer than before.
func (b *Backend) SetPeersInFlight(n int) (fewer int) { return int(b.peers.Swap(int64(n))) - n }

// listing is what an engine says that it serves.
type listing struct {
	models []Model
	// adapters are their names, and whether they are of adapters: an engine may have
	// hundreds of those, and every decision asks every backend for one.
	adapters map[string]bool
}

// Models returns what the engine last said it serves; ok is false until it said
// anything.
func (b *Backend) Models() (models []Model, ok bool) {
	if l := b.models.Load(); l != nil {
		return l.models, true
	}
	return nil, false
}

// SetModels records what the engine says it serves and reports whether that
// differs from before. The slice must not be changed afterwards. Of several models of one
// name the first counts.
func (b *Backend) SetModels(models []Model) (changed bool) {
	l := &listing{models: models, adapters: make(map[string]bool, len(models))}
	for _, m := range models {
		if _, known := l.adapters[m.ID]; !known {
			l.adapters[m.ID] = m.Adapter
		}
	}
	before := b.models.Swap(l)
	return before == nil || !slices.EqualFunc(before.models, models, func(a, b Model) bool {
		return a.ID == b.ID && bytes.Equal(a.JSON, b.JSON)
	})
}

// Serves reports whether the engine serves the model. An engine that has not said
// what it serves is taken at the configuration's word.
func (b *Backend) Serves(model string) bool {
	l := b.models.Load()
	if l == nil {
		return true
	}
	_, serves := l.adapters[model]
	return serves
}

// ServesAdapter reports whether the engine says that it serves a LoRA adapter of that name.
func (b *Backend) ServesAdapter(name string) bool {
	l := b.models.Load()
	return l != nil && l.adapters[name]
}

// Slot is the in-flight share of one request on one backend. The zero value holds
// nothing. It must not be copied once acquired.
type Slot struct {
	backend  *Backend
	count    int64
	released atomic.Bool
}

// Unbounded is a limit for [Backend.Acquire] that any load is below.
const Unbounded = int(^uint(0) >> 1)

// Acquire takes n of the backend's slots if afterwards no more than limit are in
// flight over all replicas. A request whose n exceeds the limit is accepted by an
// idle backend, or it could never be served. slot must hold nothing.
func (b *Backend) Acquire(slot *Slot, n, limit int) bool {
	count := int64(max(n, 1))
	for {
		own := b.inFlight.Load()
		if total := own + b.peers.Load(); total > 0 && total+count > int64(limit) {
			return false
		} else if limit <= 0 {
			return false
		}
		if b.inFlight.CompareAndSwap(own, own+count) {
			slot.backend, slot.count = b, count
			return true
		}
	}
}

// Count is how many slots are, or were, held.
func (s *Slot) Count() int { return int(s.count) }

// Release gives the slots back. Only the first call does anything, and only it
// returns true.
func (s *Slot) Release() bool {
	if s.backend == nil || s.released.Swap(true) {
		return false
	}
	s.backend.inFlight.Add(-s.count)
	return true
}

// health is what requests and operators have said about a backend. Writers hold
// mu; readers load the atomics.
type health struct {
	mu        sync.Mutex
	failures  int   // consecutive
	ejections int   // consecutive, for the length of the next
	ejectedAt int64 // unix nanoseconds of the last ejection

	ejectedUntil atomic.Int64 // unix nanoseconds; 0 when no ejection is without a success after it
	coolUntil    atomic.Int64 // unix nanoseconds; 0 when not cooling
	returnedAt   atomic.Int64 // unix nanoseconds of the end of the last ejection; 0 when never ejected
	draining     atomic.Bool
	asleep       atomic.Bool
	unreachable  atomic.Bool  // discovery says so
	probe        atomic.Int32 // a Probe

	waits atomic.Int64 // answers that have begun and whose next byte is waited for
	heard atomic.Int64 // unix nanoseconds of the last byte of any of them, or of when a wait began
}

// Probe is what a probe of a backend came to.
type Probe int32

// What a probe can come to.
const (
	// Answers: it can work, as far as it says, or was never probed.
	Answers Probe = iota
	// Refuses: it says that it cannot work.
	Refuses
	// Lost: it does not answer, or somebody answers for it that it failed.
	Lost
)

// String returns what a probe came to in a word.
func (p Probe) String() string {
	switch p {
	case Answers:
		return "answers"
	case Refuses:
		return "refuses"
	case Lost:
		return "lost"
	}
	return "unknown"
}

// State is whether a backend takes new requests, and if not, why.
type State uint8

// The states, from best to worst.
const (
	// Up takes requests.
	Up State = iota
	// Cooling asked for a pause with 429, 503 or 529.
	Cooling
	// Ejected failed several times in a row.
	Ejected
	// Draining finishes what it has and takes nothing new; an operator wished it.
	Draining
	// Asleep says that it sleeps: it has no weights, or no cache, or neither.
	Asleep
	// Unreachable is out because discovery or a probe says so.
	Unreachable
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Cooling:
		return "cooling"
	case Ejected:
		return "ejected"
	case Draining:
		return "draining"
	case Asleep:
		return "asleep"
	case Unreachable:
		return "unreachable"
	}
	return "unknown"
}

// State returns the backend's state at a moment.
func (b *Backend) State(now time.Time) State {
	switch t := now.UnixNano(); {
	case b.health.unreachable.Load(), b.Probe() != Answers:
		return Unreachable
	case b.health.asleep.Load():
		return Asleep
	case b.health.draining.Load():
		return Draining
	case t < b.health.ejectedUntil.Load():
		return Ejected
	case t < b.health.coolUntil.Load():
		return Cooling
	}
	return Up
}

// Retry is when a backend that is out by ejection or cooling comes back; the zero
// time for every other state.
func (b *Backend) Retry(now time.Time) time.Time {
	until := max(b.health.ejectedUntil.Load(), b.health.coolUntil.Load())
	if until <= now.UnixNano() {
		return time.Time{}
	}
	return time.Unix(0, until)
}

// Drain sets or ends an operator's wish that the backend take nothing new.
func (b *Backend) Drain(on bool) { b.health.draining.Store(on) }

// SetAsleep records what the engine says of itself.
func (b *Backend) SetAsleep(on bool) { b.health.asleep.Store(on) }

// SetUnreachable records what discovery says.
func (b *Backend) SetUnreachable(on bool) { b.health.unreachable.Store(on) }

// Unready reports whether discovery keeps new requests away ([Spec.Unready]).
func (b *Backend) Unready() bool { return b.health.unreachable.Load() }

// SetProbe records what a probe came to, and reports whether that differs from before.
func (b *Backend) SetProbe(p Probe) (changed bool) { return Probe(b.health.probe.Swap(int32(p))) != p }

// Probe is what the last probe came to.
func (b *Backend) Probe() Probe { return Probe(b.health.probe.Load()) }

// OutOfTouch reports whether nothing speaks against the backend but that probes get no answer of
// its own ([Lost]): it may all the same answer a request.
func (b *Backend) OutOfTouch() bool {
	return b.Probe() == Lost && !b.health.unreachable.Load() && !b.health.asleep.Load() && !b.health.draining.Load()
}

// WaitBegins records that the next byte of an answer that has begun is waited for, and
// WaitEnds that it is not any more. There is no wait while a client takes nothing.
func (b *Backend) WaitBegins(now time.Time) {
	b.Heard(now)
	b.health.waits.Add(1)
}

// WaitEnds records that an answer is not waited for any more.
func (b *Backend) WaitEnds() { b.health.waits.Add(-1) }

// Heard records that the backend sent something.
func (b *Backend) Heard(now time.Time) { b.health.heard.Store(now.UnixNano()) }

// Silent is how long the backend has sent nothing although answers that have begun are
// waited for; 0 while there are none.
func (b *Backend) Silent(now time.Time) time.Duration {
	if b.health.waits.Load() <= 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-b.health.heard.Load()))
}
