// Package report shows what came of a replay: as a table for people, as JSON and CSV for
// programs, and as a page with plots.
//
// It owns the [Report], which holds a [Run] for each strategy and, in a sweep, each value.
// A Run is the summary of one [replay.Result]: it keeps figures and curves, not requests,
// so that a report of hundreds of runs is small. The page is one file that asks for nothing
// from anywhere: its plots are drawn here, and it has no script.
//
//	r := report.Report{Title: "docs", Runs: []report.Run{report.Summarize("RANDOM", result)}}
//	err := r.Table(os.Stdout)
//
// Equal reports are equal to the byte. The package writes to an [io.Writer]; it opens
// nothing and reads no clock.
package report
