package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// column is one column of the table, on a terminal and on the page.
type column struct {
	name string
	// means says what it is, for who does not know.
	means string
	cell  func(Row) string
}

// columns are the figures of a row, in order.
func columns() []column {
	return []column{
		{"hit rate", "cached ÷ prompt tokens, as the engines found them", func(r Row) string { return percent(r.HitRate) }},
		{"P50", "time to first token that half of the requests stayed below", func(r Row) string { return seconds(r.TTFTP50) }},
		{"P90", "time to first token that 90 % of the requests stayed below", func(r Row) string { return seconds(r.TTFTP90) }},
		{"P99", "time to first token that 99 % of the requests stayed below", func(r Row) string { return seconds(r.TTFTP99) }},
		{"mean", "mean time to first token", func(r Row) string { return seconds(r.TTFTMean) }},
		{"req/s", "requests answered per second", func(r Row) string { return fmt.Sprintf("%.2f", r.RPS) }},
		{"requests per backend", "parts of the requests that the idlest and the busiest backend got", func(r Row) string { return span(r.ShareMin, r.ShareMax) }},
		{"prefill per backend", "parts of the uncached tokens that the idlest and the busiest backend computed", func(r Row) string { return span(r.PrefillShareMin, r.PrefillShareMax) }},
		{"overflow", "part of the requests that a better backend was too full for", func(r Row) string { return percent(r.OverflowShare) }},
		{"precision", "how much of what the router expected to be cached was", func(r Row) string { return fraction(r.Precision) }},
		{"recall", "how much of what was cached the router had expected", func(r Row) string { return fraction(r.Recall) }},
	}
}

// Table writes what was replayed, the figures of every run, and what they say.
func (r *Report) Table(w io.Writer) error {
	var out strings.Builder
	out.WriteString(r.Title + "\n")
	if len(r.Facts) > 0 {
		out.WriteString(strings.Join(r.Facts, "; ") + "\n")
	}
	out.WriteByte('\n')
	writeAligned(&out, r.cells(), r.labels())
	out.WriteByte('\n')
	for _, line := range r.remarks() {
		out.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// labels is how many of the first columns are text.
func (r *Report) labels() int {
	if r.Sweep.Key != "" {
		return 2
	}
	return 1
}

// cells are the table with its heads.
func (r *Report) cells() [][]string {
	heads := []string{"strategy"}
	if r.Sweep.Key != "" {
		heads = []string{r.Sweep.Key, "strategy"}
	}
	all := columns()
	for _, c := range all {
		heads = append(heads, c.name)
	}
	table := [][]string{heads}
	for _, run := range r.Runs {
		line := []string{run.Row.Strategy}
		if r.Sweep.Key != "" {
			line = []string{string(run.Row.SweepValue), run.Row.Strategy}
		}
		for _, c := range all {
			line = append(line, c.cell(run.Row))
		}
		table = append(table, line)
	}
	return table
}

// columnGap stands between two columns.
const columnGap = "  "

// writeAligned writes a table, the first columns flush left, the others right.
func writeAligned(out *strings.Builder, table [][]string, left int) {
	widths := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range table {
		for i, cell := range line {
			if i > 0 {
				out.WriteString(columnGap)
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				out.WriteString(cell + pad)
			} else {
				out.WriteString(pad + cell)
			}
		}
		out.WriteByte('\n')
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// fraction writes a share that may be undefined.
func fraction(share *float64) string {
	if share == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *share)
}

func span(least, most float64) string { return fmt.Sprintf("%.1f–%.1f %%", 100*least, 100*most) }

func seconds(s float64) string { return fmt.Sprintf("%.3f s", s) }
