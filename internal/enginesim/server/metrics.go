package server

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// metricsContentType is the text exposition format.
const metricsContentType = "text/plain; version=0.0.4; charset=utf-8"

// exposition writes metrics as vLLM's Python client does: families with HELP
// and TYPE, labels sorted, floats with a decimal point.
type exposition struct {
	bytes.Buffer
	era     era
	model   string
	created float64 // unix seconds
}

// family begins a metric family.
func (x *exposition) family(name, kind, help string) {
	fmt.Fprintf(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one sample; labels are alternating names and values, sorted by
// name.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		x.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		x.WriteString(labels[i])
		x.WriteString(`="`)
		x.WriteString(labelEscaper.Replace(labels[i+1]))
		x.WriteByte('"')
	}
	if len(labels) > 0 {
		x.WriteByte('}')
	}
	x.WriteByte(' ')
	x.WriteString(formatValue(value))
	x.WriteByte('\n')
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// formatValue spells a number as Python does.
func formatValue(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
}

// perEngine is a metric with one series, or one a label value, an engine.
type perEngine struct {
	name, help string
	label      string // besides engine and model_name; empty: none
	values     []string
	value      func(st *enginesim.Stats, i int) float64
}

// gauge and counter write a metric for all engines. A counter is followed by
// the time its series were made.
func (x *exposition) gauge(all []enginesim.Stats, m perEngine) {
	x.family(m.name, "gauge", m.help)
	x.series(all, m.name, m)
}

func (x *exposition) counter(all []enginesim.Stats, m perEngine) {
	x.family(m.name+"_total", "counter", m.help)
	x.series(all, m.name+"_total", m)
	x.family(m.name+"_created", "gauge", m.help)
	m.value = func(*enginesim.Stats, int) float64 { return x.created }
	x.series(all, m.name+"_created", m)
}

func (x *exposition) series(all []enginesim.Stats, name string, m perEngine) {
	for e := range x.era.shown(all) {
		if m.label == "" {
			x.sample(name, m.value(&all[e], 0), x.labels(e, "", "")...)
			continue
		}
		for i, value := range m.values {
			x.sample(name, m.value(&all[e], i), x.labels(e, m.label, value)...)
		}
	}
}

// labels returns the labels of an engine's series, and one more unless it has no
// name.
func (x *exposition) labels(engine int, name, value string) []string {
	var labels []string
	if x.era != eraV0 {
		labels = append(labels, "engine", strconv.Itoa(engine))
	}
	if name != "" && name < "model_name" {
		labels = append(labels, name, value)
	}
	labels = append(labels, "model_name", x.model)
	if name > "model_name" {
		labels = append(labels, name, value)
	}
	return labels
}

// histogram writes a histogram for all engines.
func (x *exposition) histogram(
	all []enginesim.Stats, name, help string, get func(*enginesim.Stats) *enginesim.Histogram,
) {
	x.family(name, "histogram", help)
	for e := range x.era.shown(all) {
		h := get(&all[e])
		var below uint64
		for i, count := range h.Counts {
			below += count
			bound := math.Inf(1)
			if i < len(h.Bounds) {
				bound = h.Bounds[i]
			}
			x.sample(name+"_bucket", float64(below), x.labels(e, "le", formatValue(bound))...)
		}
		x.sample(name+"_count", float64(h.Count), x.labels(e, "", "")...)
		x.sample(name+"_sum", h.Sum, x.labels(e, "", "")...)
	}
	x.family(name+"_created", "gauge", help)
	for e := range x.era.shown(all) {
		x.sample(name+"_created", x.created, x.labels(e, "", "")...)
	}
}

// handleMetrics serves GET /metrics.
func (s *Server) handleMetrics(w http.ResponseWriter, _ *http.Request) {
	all, started := s.fleet.stats()
	x := &exposition{era: s.era, model: s.cfg.Model[0], created: float64(started.UnixNano()) / 1e9}
	x.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
	x.sample("process_start_time_seconds", math.Trunc(x.created*100)/100)
	x.gauges(all)
	x.counters(all)
	x.histograms(all)
	x.cacheConfig(all)
	w.Header().Set("Content-Type", metricsContentType)
	_, _ = w.Write(x.Bytes()) // a client that has gone needs no metrics
}
