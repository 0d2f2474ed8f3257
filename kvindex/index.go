package kvindex

import "errors"

// Holder numbers a backend inside one index. Numbers start at 0, are dense, and
// are given out again after [Index.Drop].
type Holder int

// Stamp is a moment in nanoseconds. An index only compares stamps; the caller
// decides which clock they come from.
type Stamp int64

// Status tells how sure the index is of an entry.
type Status uint8

const (
	// Predicted entries were recorded at dispatch, before the engine answered.
	Predicted Status = iota
	// Observed entries belong to a prompt that was answered.
	Observed
)

// ErrFull is returned by [Index.Add] and [Index.AddAll] when the index has no number left.
var ErrFull = errors.New("kvindex: too many backends for one index")

// MaxUses is how many different last uses a [Receipt] tells apart.
const MaxUses = 8

// Use is a run of blocks with one last use.
type Use struct {
	// Until is the number of leading blocks up to the end of the run.
	Until int
	// Last is when they were last used.
	Last Stamp
}

// Receipt is what a [Index.Record] did and what it found, so that it can be taken
// back, and so that what becomes of it can say how old the found entries were.
type Receipt struct {
	// Before is how many leading blocks the backend already held.
	Before int
	// Recorded is how many leading blocks it was recorded with. It is less than
	// what was asked for when the backend's capacity is smaller than the prompt.
	Recorded int
	// Stamp is the last use given to the blocks: the time of the record, or a
	// little later, since no two records of one backend share a stamp.
	Stamp Stamp
	// Uses are the last uses that the first Before blocks had until then, as runs in
	// the order of the chain; runs that do not count have Until 0. Last uses only
	// fall along a chain. Where there were more than [MaxUses], the last run stands
	// for all the rest, with the oldest.
	Uses [MaxUses]Use
}

// LastUse is when block i was last used before the record; ok is false where the
// backend did not hold it.
func (r *Receipt) LastUse(i int) (last Stamp, ok bool) {
	if i < 0 || i >= r.Before {
		return 0, false
	}
	for _, u := range r.Uses {
		if i < u.Until {
			return u.Last, true
		}
	}
	return 0, false
}

// RunStart is the first block of the run of equal last uses that block i is in; i itself
// where the backend did not hold it.
func (r *Receipt) RunStart(i int) int {
	start := 0
	for _, u := range r.Uses {
		if i < u.Until && i < r.Before {
			return start
		}
		start = u.Until
	}
	return i
}

// Stats describes what an index holds for one backend.
type Stats struct {
	// Blocks is the number of entries, predicted and observed.
	Blocks int
	// Capacity is the bound on Blocks.
	Capacity int
	// Evicted counts the entries that capacity pushed out.
	Evicted uint64
}

// Index records which backends hold which blocks. All methods are safe for
// concurrent use. Keys are always a whole chain from block 0 on.
//
// Operations on a Holder that has been dropped do nothing.
type Index interface {
	// Add registers a backend by id and returns its number; the same id gets the
	// same number until it is dropped. It fails only with [ErrFull].
	Add(backend string) (Holder, error)
	// AddAll registers several backends, all of them or, with the same error, none: then
	// nothing has changed for those that there are.
	AddAll(backends []string) ([]Holder, error)
	// Drop forgets a backend and everything it holds.
	Drop(h Holder)
	// SetCapacity bounds how many blocks a backend holds; the oldest go first.
	SetCapacity(h Holder, blocks int)

	// Holders is the length that depths must have for [Index.Match].
	Holders() int
	// Match writes to depths[h], for every backend h, how many leading blocks of
	// keys it holds, contiguous from block 0. Elements of depths beyond
	// [Index.Holders] are set to 0. It does not count as a use.
	Match(keys []Key, depths []int)

	// Record notes that the backend holds keys, last used at now. Blocks are
	// touched head last, so that the tail of a chain is the first to go. An
	// observed entry never becomes predicted again.
	Record(h Holder, keys []Key, now Stamp, status Status) Receipt
	// Retract takes back a predicted Record: of the entries it added, those that
	// nobody touched since.
	Retract(h Holder, keys []Key, r Receipt)
	// Forget removes everything last used at or before the horizon and returns
	// how many entries that were.
	Forget(h Holder, horizon Stamp) int

	// Stats describes what the index holds for a backend.
	Stats(h Holder) Stats
}

// Shared is an index that routers have in common: what one of them publishes, the others
// find. Record alone stays with the router that recorded.
//
// Its methods return at once, and keep no reference to keys.
type Shared interface {
	Index
	// Promise tells the other routers that a backend was sent a prompt of keys at now, so
	// that its siblings follow from everywhere: there the blocks are predicted. Each
	// promise ends with Publish or Withdraw.
	Promise(h Holder, keys []Key, now Stamp) Promise
	// Publish tells them that a backend holds keys, last used at now: its engine has begun
	// to answer.
	Publish(h Holder, keys []Key, now Stamp, kept Promise)
	// Withdraw tells them that the prompt was not computed, or that it is not known
	// whether it was: of the entries that the promise added, those that nobody touched since
	// are taken back.
	Withdraw(broken Promise)
}

// Promise numbers what a router has told the others to expect. 0 is none.
type Promise uint64
