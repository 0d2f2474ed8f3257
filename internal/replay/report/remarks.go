package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/replay"
)

// remarks say what the figures mean, and what is wrong with them.
func (r *Report) remarks() []string {
	var lines []string
	if r.Sweep.Key == "" || r.Sweep.Setting {
		lines = appendBest(lines, "", r.Runs)
	} else {
		for _, group := range r.groups() {
			lines = appendBest(lines, fmt.Sprintf("%s %s: ", r.Sweep.Key, group[0].Row.SweepValue), group)
		}
	}
	lines = appendUnanswered(lines, r.Runs)
	return append(lines, r.Remarks...)
}

// appendUnanswered says which requests got no complete answer, once where that is the same in
// every run.
func appendUnanswered(lines []string, runs []Run) []string {
	if len(runs) == 0 {
		return lines
	}
	first := runs[0]
	differs := func(r Run) bool { return r.Unanswered != first.Unanswered || r.Row.Requests != first.Row.Requests }
	if text := first.Unanswered.String(); text != "" && len(runs) > 1 && !slices.ContainsFunc(runs, differs) {
		return append(lines, fmt.Sprintf("Every run: of %d requests %s.", first.Row.Requests, text))
	}
	for _, run := range runs {
		if text := run.Unanswered.String(); text != "" {
			lines = append(lines, fmt.Sprintf("%s: of %d requests %s.", run.name(), run.Row.Requests, text))
		}
	}
	return lines
}

// name tells a run from the others of its report.
func (r *Run) name() string {
	if r.Row.SweepKey == "" {
		return r.Row.Strategy
	}
	return fmt.Sprintf("%s at %s %s", r.Row.Strategy, r.Row.SweepKey, r.Row.SweepValue)
}

// appendBest names the best of the product's strategies among some runs, how far the
// oracle is ahead, and which of them do not compare because of their errors.
func appendBest(lines []string, prefix string, runs []Run) []string {
	ranked, failing := rank(runs)
	best := fastest(ranked)
	if best == nil {
		return lines
	}
	row := best.Row
	name, the := best.name(), "The"
	if prefix != "" {
		name, the = row.Strategy, prefix+"the"
	}
	text := fmt.Sprintf("%s best strategy by mean TTFT is %s: %s, P90 %s, hit rate %s.",
		the, name, seconds(row.TTFTMean), seconds(row.TTFTP90), percent(row.HitRate))
	isOracle := func(r Run) bool {
		return r.Row.Strategy == string(replay.Oracle) && r.Row.SweepValue == row.SweepValue && len(r.TTFT) > 0
	}
	if i := slices.IndexFunc(runs, isOracle); i >= 0 {
		oracle := runs[i]
		text += fmt.Sprintf(" Against ORACLE, which sees every cache and queue: mean TTFT %s, P90 %s, hit rate %s.",
			relation(row.TTFTMean, oracle.Row.TTFTMean), relation(row.TTFTP90, oracle.Row.TTFTP90), points(row.HitRate, oracle.Row.HitRate))
	}
	lines = append(lines, text)
	if len(failing) > 0 {
		lines = append(lines, leftOut(prefix, failing))
	}
	return lines
}

// fastest is the run of the least mean time to first token among those that brought
// answers, nil without any.
func fastest(runs []Run) *Run {
	var best *Run
	for i, run := range runs {
		if len(run.TTFT) == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(run.Row.TTFTMean, best.Row.TTFTMean), cmp.Compare(run.Row.TTFTP90, best.Row.TTFTP90)) < 0 {
			best = &runs[i]
		}
	}
	return best
}

// relation is by how much a figure is above or below another, in percent.
func relation(figure, other float64) string {
	if other == 0 {
		return "the same"
	}
	return aside(math.Round(100*(figure/other-1)), "%")
}

// points is by how many percentage points a share is above or below another.
func points(share, other float64) string {
	return aside(math.Round(1000*(share-other))/10, "points")
}

// aside says a difference in words.
func aside(difference float64, unit string) string {
	switch {
	case difference == 0:
		return "the same"
	case difference < 0:
		return fmt.Sprintf("%v %s below", -difference, unit)
	}
	return fmt.Sprintf("%v %s above", difference, unit)
}

// String says what became of the requests, empty when there are none.
func (u Unanswered) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(u.Refused, "were longer than an engine's KV cache")
	add(u.Rejected, "found no backend")
	add(u.Broken, "died with their engine")
	add(u.Aborted, "were left by their client")
	return strings.Join(parts, ", ")
}
