package config

import (
	"errors"
	"fmt"
	"strings"
)

// Error is one thing that is wrong with a configuration.
type Error struct {
	// File and Line say where; Line is 0 when the file does not say anything there.
	File string
	Line int
	// Path names the key as pools[0].routing.strategy, empty for the file as a whole.
	Path string
	// Message says what was found and what it may be.
	Message string
}

// Error implements error: file:line: path: message.
func (e *Error) Error() string { return located(e.File, e.Line, e.Path, e.Message) }

// Warning is something that is allowed and probably not meant.
type Warning struct {
	// File, Line, Path and Message are as in [Error].
	File    string
	Line    int
	Path    string
	Message string
}

// String returns the warning as file:line: path: message.
func (w Warning) String() string { return located(w.File, w.Line, w.Path, w.Message) }

func located(file string, line int, path, message string) string {
	var b strings.Builder
	if file != "" {
		b.WriteString(file)
		if line > 0 {
			fmt.Fprintf(&b, ":%d", line)
		}
		b.WriteString(": ")
	}
	if path != "" {
		b.WriteString(path + ": ")
	}
	b.WriteString(message)
	return b.String()
}

// Each returns the errors that an error of this package joins, in order.
func Each(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Each(e)...)
	}
	return all
}

// closest returns the name that text was probably meant to be, "" when none is
// near.
func closest(text string, names []string) string {
	best, bound := "", 1+len(text)/4
	for _, name := range names {
		if d := distance(strings.ToLower(text), strings.ToLower(name)); d <= bound {
			best, bound = name, d-1
		}
	}
	return best
}

// distance counts the letters to insert, remove or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
