package ops

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/replay/report"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// pageMode lets everybody read a page whom the process's umask does not keep from it.
const pageMode = 0o644

// advicePage is a page under way. A nil one is never written.
type advicePage struct {
	file  *os.File
	pools []report.CurvePool
}

// page opens the file before anything is asked, so that minutes do not end with a name that
// cannot be written. What it holds stays until there is something else to write.
func (a *advising) page() (*advicePage, error) {
	if a.html == "" {
		return nil, nil //nolint:nilnil // a nil page is one
	}
	file, err := os.OpenFile(a.html, os.O_CREATE|os.O_WRONLY, pageMode)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--html: %w", err))
	}
	return &advicePage{file: file}, nil
}

// add puts advice on the page.
func (p *advicePage) add(a *v1.Advice) {
	if p == nil {
		return
	}
	pool := report.CurvePool{Name: "Pool " + a.GetPool(), Facts: []string{adviceFacts(a)}, Cautions: a.GetCautions()}
	if a.GetTooLittle() != "" {
		pool.Cautions = []string{"Too little to give advice: " + a.GetTooLittle() + "."}
		p.pools = append(p.pools, pool)
		return
	}
	pool.Table = [][]string{{"setting", "present", "advised", "verdict", "why"}}
	for _, c := range a.GetCurves() {
		if c.GetVerdict() != "" {
			pool.Table = append(pool.Table, []string{c.GetSetting(), c.GetPresent(), toSet(c), c.GetVerdict(), c.GetReason()})
		}
		pool.Curves = append(pool.Curves, curveOf(c))
	}
	pool.Changes = [][]string{{"replayed", "as it is", "advised", "change (90 %)"}}
	then := figuresOf(a.GetThen())
	for i, f := range figuresOf(a.GetNow()) {
		change := ""
		switch i {
		case hitRow:
			change = points(a.GetExpected().GetHitRate())
		case p90Row:
			change = parts(a.GetExpected().GetTtftP90())
		}
		pool.Changes = append(pool.Changes, []string{f.name, f.value, then[i].value, change})
	}
	p.pools = append(p.pools, pool)
}

// curveOf is a curve as it is drawn.
func curveOf(c *v1.AdviceCurve) report.Curve {
	out := report.Curve{Setting: c.GetSetting()}
	for _, p := range c.GetPoints() {
		m := p.GetMeasure()
		out.Values = append(out.Values, p.GetValue())
		out.HitRates = append(out.HitRates, m.GetHitRate())
		out.Overflow = append(out.Overflow, m.GetOverflowShare())
		out.P50s = append(out.P50s, m.GetTtftP50().AsDuration().Seconds())
		out.P90s = append(out.P90s, m.GetTtftP90().AsDuration().Seconds())
	}
	out.Present, out.Advised = slices.Index(out.Values, c.GetPresent()), slices.Index(out.Values, toSet(c))
	return out
}

// close writes the page, unless there is no advice on it.
func (p *advicePage) close() error {
	if p == nil {
		return nil
	}
	defer func() { _ = p.file.Close() }()
	if len(p.pools) == 0 {
		return nil
	}
	var text bytes.Buffer
	page := report.CurvePage{Title: "Advice", Pools: p.pools}
	if err := page.HTML(&text); err != nil {
		return err
	}
	if _, err := p.file.Write(text.Bytes()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if err := p.file.Truncate(int64(text.Len())); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return p.file.Close()
}
