package intake

import "sync/atomic"

// Budget bounds the bytes of request bodies that are held at once. Its methods may be
// called at the same time.
type Budget struct {
	limit int64
	held  atomic.Int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit is how many bytes may be held.
func (b *Budget) Limit() int64 { return b.limit }

// Held is how many bytes are held now.
func (b *Budget) Held() int64 { return b.held.Load() }

func (b *Budget) take(n int64) bool {
	for {
		held := b.held.Load()
		if held+n > b.limit {
			return false
		}
		if b.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// Share is what one request holds of a budget, until Release. The zero value holds
// nothing and must be made ready by Open. It is not safe for concurrent use.
type Share struct {
	budget *Budget
	held   int64
	parse  int64 // of held, until Trim
}

// Open makes the share one of a budget.
func (s *Share) Open(b *Budget) { s.budget = b }

// Hold makes sure that n bytes are held, and reports whether there was room.
func (s *Share) Hold(n int64) bool {
	if n <= s.held {
		return true
	}
	if !s.budget.take(n - s.held) {
		return false
	}
	s.held = n
	return true
}

// Charge counts bytes that were made of a body, without asking: the body itself was
// let in.
func (s *Share) Charge(n int) {
	s.budget.held.Add(int64(n))
	s.held += int64(n)
}

// Take implements [prompt.Budget]. A body that is alone may always be parsed, or the
// largest could never be.
func (s *Share) Take(n int64) bool {
	if !s.budget.take(n) {
		if !s.budget.held.CompareAndSwap(s.held, s.held+n) {
			return false
		}
	}
	s.held += n
	s.parse += n
	return true
}

// Trim gives back what reading the body took.
func (s *Share) Trim() {
	s.budget.held.Add(-s.parse)
	s.held, s.parse = s.held-s.parse, 0
}

// Release gives everything back. The share must be opened before it is used again.
func (s *Share) Release() {
	if s.budget != nil {
		s.budget.held.Add(-s.held)
		*s = Share{}
	}
}
