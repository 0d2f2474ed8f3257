package scrape

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series is one series of a page.
type series struct {
	labels model.Metric
	rank   string // "" where it does not say
	value  float64
}

// table is the series of a page by name, without prefix.
type table map[string][]series

// parseLines reads the lines that selectLines left over.
func parseLines(lines []byte, d *dialect) (table, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		return nil, fmt.Errorf("not a metrics page: %.200s", err.Error()) // which quotes what it met, however long
	}
	t := make(table, len(families))
	for name, family := range families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family)
		if err != nil {
			return nil, fmt.Errorf("not a metrics page: %w", err)
		}
		for _, s := range samples {
			for _, label := range d.copies {
				delete(s.Metric, model.LabelName(label))
			}
		}
		t[strings.TrimPrefix(name, d.prefix)] = merge(samples, model.LabelName(d.rank))
	}
	return t, nil
}

// merge turns samples into series. Those with the same labels say the same thing
// again; the largest value counts, whichever comes first.
func merge(samples model.Vector, rank model.LabelName) []series {
	all := make([]series, 0, len(samples))
	place := make(map[model.Fingerprint]int, len(samples))
	for _, s := range samples {
		labels, value := s.Metric.Fingerprint(), float64(s.Value)
		if i, again := place[labels]; again {
			all[i].value = max(all[i].value, value)
			continue
		}
		place[labels] = len(all)
		all = append(all, series{labels: s.Metric, rank: string(s.Metric[rank]), value: value})
	}
	return all
}

// ranks returns the data-parallel ranks that the page tells apart, in order.
func (t table) ranks() []string {
	seen := make(map[string]bool)
	for _, all := range t {
		for _, s := range all {
			if s.rank != "" {
				seen[s.rank] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

// view is what a page says of one rank, or of all.
type view struct {
	table table
	rank  string // "" for all
	ranks int    // on the page, at least 1
}

// get returns the series of a name. Those of a counter are looked for with "_total"
// first. Of a rank, series that name no rank are no part, unless shared is set.
func (v view) get(name string, shared bool) []series {
	all := v.table[name+total]
	if len(all) == 0 {
		all = v.table[name]
	}
	if v.rank == "" {
		return all
	}
	var own []series
	for _, s := range all {
		if s.rank == v.rank || shared && s.rank == "" {
			own = append(own, s)
		}
	}
	return own
}

// maxValue bounds what is believed, far above what any engine counts and well within
// the integers that a float64 holds.
const maxValue = 1e15

// sensible reports whether a value can be a count.
func sensible(v float64) bool { return v >= 0 && v <= maxValue }

// sum adds up the series of a name, those that keep allows if it is set. ok is false
// where there are none or one of them is not a sensible number.
func (v view) sum(name string, keep func(series) bool) (sum float64, ok bool) {
	for _, s := range v.get(name, false) {
		if keep != nil && !keep(s) {
			continue
		}
		if !sensible(s.value) {
			return 0, false
		}
		sum, ok = sum+s.value, true
	}
	return sum, ok
}

// largest returns the largest value of a name, on the terms of sum.
func (v view) largest(name string, shared bool) (largest float64, ok bool) {
	for _, s := range v.get(name, shared) {
		if !sensible(s.value) {
			return 0, false
		}
		largest, ok = max(largest, s.value), true
	}
	return largest, ok
}

// label returns the value of a label, "" where there is none.
func (s series) label(name string) string { return string(s.labels[model.LabelName(name)]) }

// count reads a number of things from a label, 0 where it says none.
func (s series) count(label string) int {
	n, err := strconv.ParseFloat(s.label(label), 64)
	if err != nil || !sensible(n) {
		return 0
	}
	return int(n)
}
