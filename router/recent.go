package router

import (
	"math"
	"sync/atomic"
	"time"
)

// recentHalfLife is how fast past assignments stop counting.
const recentHalfLife = 300 * time.Second

// recent counts a backend's recent assignments, each worth half as much after
// recentHalfLife. What is stored is the base-2 logarithm of the count as of a
// common epoch: decay moves all backends' counts alike, so comparing needs none.
// The zero value counts nothing.
type recent struct {
	log2 atomic.Uint64 // float64 bits; 0 when nothing was counted
}

// add counts one assignment, at a time since the router's epoch.
func (r *recent) add(since time.Duration) {
	one := since.Seconds() / recentHalfLife.Seconds()
	for {
		old := r.log2.Load()
		sum := one
		if old != 0 {
			high, low := math.Float64frombits(old), one
			if low > high {
				high, low = low, high
			}
			sum = high + math.Log2(1+math.Exp2(low-high))
		}
		if sum == 0 {
			sum = math.SmallestNonzeroFloat64 // 0 is kept for "nothing"
		}
		if r.log2.CompareAndSwap(old, math.Float64bits(sum)) {
			return
		}
	}
}

// level orders backends by recent assignments; only comparisons mean anything.
func (r *recent) level() float64 {
	if bits := r.log2.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return math.Inf(-1)
}
