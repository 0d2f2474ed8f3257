package feedback

import "github.com/warmroute/warmroute/kvindex"

const (
	// agesKept is how many confirmations of one backend are looked back on to tell how long
	// it keeps what is not used.
	agesKept = 64
	// ageCounts is how long such an age counts, in ages: a cache turns over in about one, and
	// by then the load may be another.
	ageCounts = 4
)

// retention is how long one backend keeps what is not used, as confirmed hits have shown: a
// cache that evicts what was least recently used keeps everything up to some age, which
// changes slowly. The zero value knows nothing.
type retention struct {
	sightings [agesKept]sighting // a ring
	count     int
}

// sighting is that something unused for age was found at a moment.
type sighting struct{ age, at kvindex.Stamp }

// confirmed takes in that something unused for age was found at now.
func (r *retention) confirmed(age, now kvindex.Stamp) {
	r.sightings[r.count%agesKept] = sighting{age, now}
	r.count++
}

// cut takes in that nothing unused for age or longer is kept any more.
func (r *retention) cut(age kvindex.Stamp) {
	for i := range r.sightings {
		r.sightings[i].age = min(r.sightings[i].age, age)
	}
}

// doubt is how little eviction explains that something unused for age is gone at now: 0
// where nothing as old was lately found, near 1 where much older was.
func (r *retention) doubt(age, now kvindex.Stamp) float64 {
	longest := kvindex.Stamp(0)
	for _, s := range r.sightings {
		if now-s.at <= ageCounts*s.age {
			longest = max(longest, s.age)
		}
	}
	if longest <= 0 {
		return 0
	}
	return max(0, 1-float64(age)/float64(longest))
}
