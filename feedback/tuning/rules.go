package tuning

import (
	"fmt"
	"time"
)

// How long a step may be watched.
const (
	DefaultObservation = 15 * time.Minute
	MinObservation     = time.Minute
	MaxObservation     = 24 * time.Hour
)

const (
	// parts is how many parts are observed, and settled how many of them are compared:
	// the first one after a change shows how caches move.
	parts   = 6
	settled = parts - 1
	// early is after how many parts a step may be taken back that is certainly bad.
	early = 3
	// minAnswers is how many answers of a part report their cached tokens, at least.
	minAnswers = 100
	// stepFactor is how many times larger or smaller a setting gets at most.
	stepFactor = 4
	// fallOfHits is how much of the hit rate, 0..1, a step may cost; riseOfP90 what part of the
	// P90, and leastRise how much at least; riseOfUnserved what part of all requests.
	fallOfHits     = 0.02
	riseOfP90      = 0.25
	leastRise      = 20 * time.Millisecond
	riseOfUnserved = 0.01
	// leastHits, 0..1, or leastP90, a part of the P90, and leastFaster is what a step must promise.
	leastHits   = 0.01
	leastP90    = 0.05
	leastFaster = 5 * time.Millisecond
	// shifted is how far the hit rate of two parts, 0..1, or as a factor their P90, lies from that
	// before where traffic is taken for another one; fresh is how many parts that takes, and after
	// how many of another traffic a step may be made.
	shiftedHits = 0.05
	shiftedP90  = 1.5
	fresh       = 2
	// certain is how many standard errors of the hit rate a fall is certain beyond, and how many
	// times as large as what a step may cost its other costs are.
	certain = 2
	// rest is for how many observations nothing is tried of what was taken back, twice as many
	// each time, and mostRests how often that doubles.
	rest      = 4
	mostRests = 6
	// remembered is for how long what was delivered before a step bounds what those after it cost.
	remembered = 24 * time.Hour
	// maxSteps is how many steps are remembered.
	maxSteps = 100
)

// Rules bound what is done by itself.
type Rules struct {
	// Observation is how long a step is watched before it is kept, and the longest time for
	// which what it costs is borne.
	Observation time.Duration
}

// Validate names what makes no sense.
func (r Rules) Validate() error {
	if r.Observation < MinObservation || r.Observation > MaxObservation {
		return fmt.Errorf("observation: %v is not in %v..%v", r.Observation, MinObservation, MaxObservation)
	}
	return nil
}

// part is how long a part is, at least. All parts together are shorter than the observation: a change
// begins within a part, and what is not seen in the first ones shows in those after it.
func (r Rules) part() time.Duration { return r.Observation / (parts + 1) }
