package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/replay"
)

// plotTTFT shows how the time to first token is distributed.
func plotTTFT(out *strings.Builder, runs []Run) {
	least, most := math.Inf(1), 0.0
	for _, run := range runs {
		for _, s := range run.TTFT {
			least, most = min(least, s), max(most, s)
		}
	}
	if most == 0 {
		return
	}
	p := newPlot(out, "Time to first token, cumulative", standardFrame,
		logSecondsAxis("time to first token", max(least, 1e-3), most), shareAxis("requests within", 1))
	parts := make([]float64, quantiles+1)
	for i := range parts {
		parts[i] = float64(i) / quantiles
	}
	for _, run := range runs {
		p.line(styleOf(run.Row.Strategy), run.TTFT, parts[:len(run.TTFT)])
	}
	p.close()
}

// plotHitRates shows the hit rate over time.
func plotHitRates(out *strings.Builder, runs []Run, faults []replay.Fault) {
	length := slices.MaxFunc(runs, func(a, b Run) int { return int(a.Length - b.Length) }).Length
	most := 0.0
	for _, run := range runs {
		for _, rate := range run.HitRates {
			if rate > most { // not when it is NaN
				most = rate
			}
		}
	}
	p := newPlot(out, "Hit rate over time", standardFrame, timeAxis(length), shareAxis("hit rate", max(most, 0.1)))
	for _, run := range runs {
		times := make([]float64, len(run.HitRates))
		for i := range times {
			times[i] = (float64(i) + 0.5) / windows * run.Length.Seconds()
		}
		p.line(styleOf(run.Row.Strategy), times, run.HitRates)
	}
	for i, fault := range faults {
		p.fault(i, fault)
	}
	p.close()
}

// fault marks the i-th fault. Labels of faults that follow each other stand one above the
// other, beside their line where there is more room.
func (p *plot) fault(i int, fault replay.Fault) {
	const rows, rowHeight, gap = 10, 15, 4
	note := fmt.Sprintf("%s of backend %d", fault.Kind, fault.Backend)
	px := p.rule(fault.At.Seconds(), note)
	anchor, x := "start", px+gap
	if px > p.frame.width/2 {
		anchor, x = "end", px-gap
	}
	p.label(anchor, x, p.frame.height-p.frame.bottom-rowHeight/2-float64(i%rows)*rowHeight, note)
}

// plotShares shows what each backend got of something, strategy by strategy.
func plotShares(out *strings.Builder, title string, runs []Run, of func(Run) []float64) {
	most, names := 0.0, make([]string, len(runs))
	for i, run := range runs {
		most = max(most, slices.Max(of(run)))
		names[len(runs)-1-i] = run.Row.Strategy // the first stands at the top
	}
	const rowHeight = 26
	f := frame{width: 560, left: 236, right: 18, top: 20, bottom: 46}
	f.height = f.top + f.bottom + rowHeight*float64(len(runs))
	even := 1 / float64(len(of(runs[0])))
	p := newPlot(out, title, f, shareAxis("share of a backend", max(most, 1.5*even)), valuesAxis("", names))
	p.label("middle", p.rule(even, "an equal share for each"), f.top-4, "even")
	for i, run := range runs {
		s := styleOf(run.Row.Strategy)
		for backend, share := range of(run) {
			p.point(s, share, float64(len(runs)-1-i), fmt.Sprintf("%s, backend %d: %s", s.strategy, backend, percent(share)))
		}
	}
	p.close()
}

// sweepFigure is a figure that is drawn over the values of a sweep.
type sweepFigure struct {
	title string
	of    func(Row) float64
	share bool // else seconds
}

// plotSweep shows how figures depend on the swept value.
func (r *Report) plotSweep(out *strings.Builder) {
	groups := r.groups()
	values := make([]string, len(groups))
	for i, group := range groups {
		values[i] = string(group[0].Row.SweepValue)
	}
	for _, figure := range []sweepFigure{
		{"Hit rate", func(r Row) float64 { return r.HitRate }, true},
		{"Mean time to first token", func(r Row) float64 { return r.TTFTMean }, false},
		{"P50 time to first token", func(r Row) float64 { return r.TTFTP50 }, false},
		{"P90 time to first token", func(r Row) float64 { return r.TTFTP90 }, false},
	} {
		figure.plot(out, valuesAxis(r.Sweep.Key, values), groups)
	}
}

// plot draws one figure, a line for each strategy.
func (f sweepFigure) plot(out *strings.Builder, x axis, groups [][]Run) {
	least, most := math.Inf(1), 0.0
	for _, group := range groups {
		for _, run := range group {
			least, most = min(least, f.of(run.Row)), max(most, f.of(run.Row))
		}
	}
	y := secondsAxis("", least, most)
	if f.share {
		y = shareAxis("", max(most, 0.1))
	}
	p := newPlot(out, f.title, standardFrame, x, y)
	for i, first := range groups[0] {
		s := styleOf(first.Row.Strategy)
		xs, ys := make([]float64, len(groups)), make([]float64, len(groups))
		for place, group := range groups {
			xs[place], ys[place] = float64(place), f.of(group[i].Row)
		}
		p.line(s, xs, ys)
		for place, y := range ys {
			label := seconds(y)
			if f.share {
				label = percent(y)
			}
			p.point(s, xs[place], y, fmt.Sprintf("%s, %s %s: %s", s.strategy, x.label, x.ticks[place].text, label))
		}
	}
	p.close()
}
