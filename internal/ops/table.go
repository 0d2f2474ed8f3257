package ops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is columns that line up. A column in which there is nothing to see is left out.
type table struct {
	columns []column
	rows    [][]string
}

// column is one column of a table.
type column struct {
	head string
	// usual is what its cells mostly are: where all of them are, or there is none, the
	// column is left out. Empty: it is never left out.
	usual string
	// several leaves it out where all its cells are the same.
	several bool
	// number aligns its cells to the right.
	number bool
}

// text is a column of words, number one of numbers.
func text(head string) column   { return column{head: head} }
func number(head string) column { return column{head: head, number: true} }

// unless leaves the column out where all its cells are usual.
func (c column) unless(usual string) column {
	c.usual = usual
	return c
}

// ifSeveral leaves the column out where all its cells are the same: the pool of a router that
// has only one.
func (c column) ifSeveral() column {
	c.several = true
	return c
}

func newTable(columns ...column) *table { return &table{columns: columns} }

// row adds a row, with a cell for each column.
func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

// shown reports whether a column has anything to see.
func (t *table) shown(i int) bool {
	usual := t.columns[i].usual
	if t.columns[i].several && len(t.rows) > 0 {
		usual = t.rows[0][i]
	}
	return usual == "" && !t.columns[i].several ||
		slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != usual })
}

// write prints the table.
func (t *table) write(w io.Writer) {
	var lines [][]string
	var columns []column
	for i, c := range t.columns {
		if !t.shown(i) {
			continue
		}
		columns = append(columns, c)
		lines = add(lines, 0, c.head)
		for n, row := range t.rows {
			lines = add(lines, n+1, row[i])
		}
	}
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if columns[i].number {
				b.WriteString(gap + cell)
			} else {
				b.WriteString(cell + gap)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// add adds a cell to a line, which is a new one if need be.
func add(lines [][]string, n int, cell string) [][]string {
	if n == len(lines) {
		lines = append(lines, nil)
	}
	lines[n] = append(lines[n], cell)
	return lines
}

// amount is a large number as people read it: the first three digits and a unit.
func amount(n uint64) string {
	if n < 100_000 {
		return fmt.Sprint(n)
	}
	value, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, u
	}
	switch {
	case value < 9.995:
		return fmt.Sprintf("%.2f %s", value, unit)
	case value < 99.95:
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

// percent is a part of a whole, "-" where there is no whole.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// orDash is a text, "-" where it is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
