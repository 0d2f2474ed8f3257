package report

import (
	"time"

	"github.com/warmroute/warmroute/internal/replay"
)

// Report is what came of a comparison.
type Report struct {
	// Title says in one line what was replayed.
	Title string
	// Facts say under which conditions, one each.
	Facts []string
	// Sweep is what differs between the runs apart from the strategy.
	Sweep Sweep
	// Faults are what went wrong at a moment of every run.
	Faults []replay.Fault
	// Runs are the runs in the order in which they are shown. Those of one swept value
	// stand together.
	Runs []Run
	// Remarks are lines to be shown below the figures, after those that the report makes
	// itself.
	Remarks []string
}

// Sweep is a key whose value differs between runs. The zero value is none.
type Sweep struct {
	// Key names it, empty without a sweep.
	Key string
	// Setting says that it is one of the router's settings. There is a best value of a
	// setting; of a load or of a number of backends there is none.
	Setting bool
}

// Run is what came of one strategy.
type Run struct {
	// Row is the figures.
	Row Row
	// Unanswered are the requests without a complete answer, by what became of them.
	Unanswered Unanswered
	// TTFT is the time to first token in seconds at equally spaced quantiles from 0 to
	// 1; empty when no token came.
	TTFT []float64
	// Length is how long requests arrived, in virtual time.
	Length time.Duration
	// HitRates are the hit rates of equal parts of Length, by arrival, 0–1 or NaN where
	// nothing was asked.
	HitRates []float64
	// Requests and Prefilled are each backend's parts of the admitted requests and of
	// their tokens that were not cached, 0–1.
	Requests, Prefilled []float64
}

// Unanswered are requests that were not answered in full.
type Unanswered struct {
	// Rejected found no backend; Refused were longer than an engine's KV cache; Aborted
	// were left by the client; Broken died with their engine.
	Rejected, Refused, Aborted, Broken int
}

// The resolution of curves.
const (
	quantiles = 200
	windows   = 60
)

// Summarize keeps of a result what a report shows.
func Summarize(strategy string, r *replay.Result) Run {
	length := arrivals(r)
	return Run{
		Row:        newRow(strategy, r),
		Unanswered: Unanswered{Rejected: r.Rejected, Refused: r.Refused, Aborted: r.Aborted, Broken: r.Broken},
		TTFT:       ttftCurve(r),
		Length:     length,
		HitRates:   hitRateCurve(r, length),
		Requests:   shares(r.Backends),
		Prefilled:  shares(r.Prefilled()),
	}
}

// groups are the runs by swept value, in order; one group without a sweep.
func (r *Report) groups() [][]Run {
	var groups [][]Run
	for start := 0; start < len(r.Runs); {
		end := start + 1
		for end < len(r.Runs) && r.Runs[end].Row.SweepValue == r.Runs[start].Row.SweepValue {
			end++
		}
		groups = append(groups, r.Runs[start:end])
		start = end
	}
	return groups
}
