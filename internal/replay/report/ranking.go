package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/router"
)

// errorTolerance is by how much the share of errors of two runs may differ where their times
// are compared: 1 point. Who turns requests away is fast for the rest.
const errorTolerance = 0.01

// rank returns the runs of the product's strategies that compare, and those that do not as
// they have more errors than the best of them.
func rank(runs []Run) (ranked, failing []Run) {
	least := 1.0
	for _, run := range runs {
		if ofProduct(run) {
			least = min(least, run.Row.errorShare())
		}
	}
	for _, run := range runs {
		switch {
		case !ofProduct(run):
		case run.Row.errorShare() > least+errorTolerance:
			failing = append(failing, run)
		default:
			ranked = append(ranked, run)
		}
	}
	return ranked, failing
}

func ofProduct(r Run) bool { return slices.Contains(router.Strategies(), r.Row.Strategy) }

// errorShare is the part of the requests that are errors, 0–1.
func (r Row) errorShare() float64 { return float64(r.Errors) / float64(max(r.Requests, 1)) }

// leftOut names the runs that are not ranked, and says why. The prefix, where there is one,
// names the swept value of them all.
func leftOut(prefix string, failing []Run) string {
	left := "Left"
	if prefix != "" {
		left = prefix + "left"
	}
	names := make([]string, len(failing))
	for i, run := range failing {
		name := run.name()
		if prefix != "" {
			name = run.Row.Strategy
		}
		names[i] = fmt.Sprintf("%s (%s errors)", name, percent(run.Row.errorShare()))
	}
	return fmt.Sprintf("%s out of that, with over %v point more errors than the run with the fewest: %s.",
		left, 100*errorTolerance, strings.Join(names, ", "))
}
