package ops

import (
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// drawAdvice prints advice for people. named is the pool where there are several.
func drawAdvice(w io.Writer, a *v1.Advice, named string) {
	fmt.Fprintf(w, "%s\n", adviceFacts(a))
	if a.GetTooLittle() != "" {
		fmt.Fprintf(w, "\nToo little to give advice: %s.\n", a.GetTooLittle())
		return
	}
	fmt.Fprintln(w)
	t := newTable(text("SETTING"), number("PRESENT"), number("ADVISED"), text("VERDICT"), text("WHY"))
	for _, c := range a.GetCurves() {
		if c.GetVerdict() != "" {
			t.row(c.GetSetting(), c.GetPresent(), toSet(c), c.GetVerdict(), c.GetReason())
		}
	}
	t.write(w)
	fmt.Fprintln(w)
	drawExpected(w, a)
	for _, c := range a.GetCurves() {
		fmt.Fprintln(w)
		drawCurve(w, c)
	}
	fmt.Fprint(w, "\nWhat would make it wrong:\n")
	for _, caution := range a.GetCautions() {
		fmt.Fprintf(w, "- %s\n", caution)
	}
	if command := setCommand(a.GetChange(), named); command != "" {
		fmt.Fprintf(w, "\nTo set it: warmroute advise --apply, or\n  %s\n", command)
	}
}

// adviceFacts says what advice rests on, in a line.
func adviceFacts(a *v1.Advice) string {
	e := a.GetEvidence()
	from, to := e.GetFrom().AsTime(), e.GetTo().AsTime()
	facts := fmt.Sprintf("pool %s: %d requests", a.GetPool(), e.GetRequests())
	if e.GetRequests() > 0 {
		facts += fmt.Sprintf(" that came in %v, from %s UTC on, of which %d count", to.Sub(from).Round(time.Second), from.UTC().Format(time.DateTime), e.GetCounted())
	}
	if e.HitRate != nil {
		facts += fmt.Sprintf("; measured: hit rate %s", share(e.GetHitRate()))
		if e.GetTtftP90() != nil {
			facts += ", TTFT P90 " + took(e.GetTtftP90().AsDuration())
		}
	}
	return facts
}

// toSet is the value of a setting once advice was followed.
func toSet(c *v1.AdviceCurve) string {
	if c.GetVerdict() == "set" {
		return c.GetAdvised()
	}
	return c.GetPresent()
}

// drawExpected prints what the present settings and the advised ones do.
func drawExpected(w io.Writer, a *v1.Advice) {
	now, then := a.GetNow(), a.GetThen()
	if a.GetChange() == nil {
		t := newTable(text("REPLAYED"), number("AS IT IS"))
		for _, f := range figuresOf(now) {
			t.row(f.name, f.value)
		}
		t.write(w)
		return
	}
	t := newTable(text("REPLAYED"), number("AS IT IS"), number("ADVISED"), text("CHANGE (90 % INTERVAL)"))
	after := figuresOf(then)
	for i, f := range figuresOf(now) {
		change := ""
		switch i {
		case hitRow:
			change = points(a.GetExpected().GetHitRate())
		case p90Row:
			change = parts(a.GetExpected().GetTtftP90())
		}
		t.row(f.name, f.value, after[i].value, change)
	}
	t.write(w)
}

// figure is one of what a replay shows.
type figure struct{ name, value string }

// The numbers of the figures of which the change is told.
const (
	hitRow = 0
	p90Row = 2
)

func figuresOf(m *v1.AdviceMeasure) []figure {
	return []figure{
		{"hit rate", share(m.GetHitRate())},
		{"TTFT P50", took(m.GetTtftP50().AsDuration())},
		{"TTFT P90", took(m.GetTtftP90().AsDuration())},
		{"overflow", share(m.GetOverflowShare())},
		{"busiest ÷ mean", fmt.Sprintf("%.2f", m.GetSkew())},
		{"without an answer", share(m.GetUnserved())},
	}
}

// barWidth is that of the longest bar, in characters.
const barWidth = 24

// drawCurve prints a setting's curve, a bar for each value.
func drawCurve(w io.Writer, c *v1.AdviceCurve) {
	var mostHits, mostP90 float64
	for _, p := range c.GetPoints() {
		mostHits = max(mostHits, p.GetMeasure().GetHitRate())
		mostP90 = max(mostP90, p.GetMeasure().GetTtftP90().AsDuration().Seconds())
	}
	t := newTable(number(c.GetSetting()), number("HIT RATE"), text(""), number("TTFT P90"), text(""),
		number("OVERFLOW"), number("SKEW"), number("PREFIXES"), text(" "))
	for _, p := range c.GetPoints() {
		m := p.GetMeasure()
		p90 := m.GetTtftP90().AsDuration()
		t.row(p.GetValue(), share(m.GetHitRate()), bar(m.GetHitRate(), mostHits), took(p90), bar(p90.Seconds(), mostP90),
			share(m.GetOverflowShare()), fmt.Sprintf("%.2f", m.GetSkew()), m.GetDistinctPrefixes(), mark(c, p.GetValue()))
	}
	t.write(w)
}

// mark says which value is the present one, and which the advised one.
func mark(c *v1.AdviceCurve, value string) string {
	switch {
	case value == c.GetPresent() && c.GetVerdict() == "set":
		return "← now"
	case value == c.GetPresent() && c.GetVerdict() != "":
		return "← now, to be kept"
	case value == c.GetPresent():
		return "← now"
	case value == c.GetAdvised() && c.GetVerdict() == "set":
		return "← advised"
	}
	return ""
}

// bar is a bar as long as a value is of the most.
func bar(value, most float64) string {
	const eighths = "▏▎▍▌▋▊▉█"
	if most <= 0 {
		return ""
	}
	n := int(8*barWidth*value/most + 0.5)
	full := strings.Repeat("█", n/8)
	if n%8 == 0 {
		return full
	}
	return full + string([]rune(eighths)[n%8-1])
}

// share is a part of a whole in percent.
func share(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// took is a time to three digits.
func took(d time.Duration) string {
	switch s := d.Seconds(); {
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 10:
		return fmt.Sprintf("%.1f s", s)
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	default:
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
}

// points is a change of a hit rate, parts one of a time.
func points(i *v1.AdviceInterval) string {
	return fmt.Sprintf("%+.1f points (%+.1f … %+.1f)", 100*i.GetEstimate(), 100*i.GetLow(), 100*i.GetHigh())
}

func parts(i *v1.AdviceInterval) string {
	return fmt.Sprintf("%+.0f %% (%+.0f … %+.0f)", 100*i.GetEstimate(), 100*i.GetLow(), 100*i.GetHigh())
}

// setCommand is the command that makes a change, empty where there is none.
func setCommand(change *v1.RoutingConfig, pool string) string {
	if change == nil {
		return ""
	}
	command := "warmroute strategy set"
	if pool != "" {
		command += " --pool " + pool
	}
	if change.PrefixLength != nil {
		command += fmt.Sprintf(" --prefix-length %d", change.GetPrefixLength())
	}
	if change.ConcurrencyThreshold != nil {
		command += fmt.Sprintf(" --concurrency-threshold %d", change.GetConcurrencyThreshold())
	}
	return command
}
