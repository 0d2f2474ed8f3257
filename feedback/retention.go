package feedback

import (
	"slices"

	"github.com/warmroute/warmroute/kvindex"
)

// agesKept is how many confirmations of one backend are looked back on to tell how long it
// keeps what is not used.
const agesKept = 64

// retention is how long one backend keeps what is not used, as confirmed hits have shown: a
// cache that evicts what was least recently used keeps everything up to some age, which
// changes slowly. The zero value knows nothing.
type retention struct {
	ages  [agesKept]kvindex.Stamp // of confirmed entries, when they were found; a ring
	count int
}

// confirmed takes in that something unused for age was found.
func (r *retention) confirmed(age kvindex.Stamp) {
	r.ages[r.count%agesKept] = age
	r.count++
}

// cut takes in that nothing unused for age or longer is kept any more.
func (r *retention) cut(age kvindex.Stamp) {
	for i := range r.ages {
		r.ages[i] = min(r.ages[i], age)
	}
}

// doubt is how little eviction explains that something unused for age is gone: 0 where
// nothing as old was lately found, near 1 where much older was.
func (r *retention) doubt(age kvindex.Stamp) float64 {
	longest := slices.Max(r.ages[:])
	if longest <= 0 {
		return 0
	}
	return max(0, 1-float64(age)/float64(longest))
}
