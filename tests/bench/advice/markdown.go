package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/feedback/advice"
)

const introduction = `# Advice

A fleet runs for the length of a workload with the settings that the table says. What its router remembers of that, in 64 MiB and
without any text, is all that the advice rests on ([how](../../feedback/advice/doc.go)). Then every ` + "`prefix_length`" + ` and every
` + "`concurrency_threshold`" + ` that is a power of two is tried on the fleet itself, each with the other as advised. Of those whose P90 is at most
1.5 times the lowest, and whose hit rate is within a point of the best of these, the one with the lowest P90 is *the best*: what is
advised must come within a point of its hit rate and 5 % of its P90.

Seven engines as in [policies.md](policies.md), ` + "`PREFIX_AWARE`" + ` where nothing else is said. ` + "`make advice-bench`" + ` writes this page anew, the same on
machines of one architecture. Hit rates in percent, P90 of the time to first token in seconds, over whole runs from empty caches.
`

// writeMarkdown writes the page.
func writeMarkdown(w io.Writer, all []*trial, until time.Duration) {
	fmt.Fprint(w, introduction)
	if until > 0 {
		fmt.Fprintf(w, "\nOf each workload its first %v are played (`-first %v`).\n", until, until)
	}
	if absent := notPlayed(all); len(absent) > 0 {
		fmt.Fprintf(w, "\nNot played for this page (`-only`): %s.\n", strings.Join(absent, ", "))
	}
	hold, of := 0, 0
	for _, c := range all {
		for _, s := range c.starts {
			if of++; s.holds() {
				hold++
			}
		}
	}
	fmt.Fprintf(w, "\n%d of %d hold.\n\n", hold, of)
	fmt.Fprint(w, "| world | set | hit, P90 | advised `prefix_length` | advised `concurrency_threshold` | hit, P90 as advised | the best | its hit, P90 | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		for _, s := range c.starts {
			verdict := "**does not hold**"
			if s.holds() {
				verdict = "holds"
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s, %s | %s | %s |\n", c.world.name, s.name, s.before,
				s.advised(advice.PrefixLength), s.advised(advice.ConcurrencyThreshold), s.after,
				grouped(s.best.prefixLength), grouped(s.best.threshold), s.best.figures, verdict)
		}
	}
	fmt.Fprint(w, "\n## What it expected\n\nThe change by what is advised, as foretold with its interval (90 %), and as it came.\n\n")
	fmt.Fprint(w, "| world | set | requests | hits foretold, points | hits came | P90 foretold | P90 came |\n|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		for _, s := range c.starts {
			came := s.after.p90.Seconds()/s.before.p90.Seconds() - 1
			fmt.Fprintf(w, "| %s | %s | %d | %s | %+.1f | %s | %+.0f %% |\n", c.world.name, s.name, s.advice.Evidence.Requests,
				interval(s.advice.Change.HitRate, "%+.1f"), 100*(s.after.hits-s.before.hits), interval(s.advice.Change.P90, "%+.0f %%"), 100*came)
		}
	}
}

// notPlayed are the worlds that are not among those of the page.
func notPlayed(all []*trial) (names []string) {
	for _, w := range worlds() {
		if !slices.ContainsFunc(all, func(t *trial) bool { return t.world.name == w.name }) {
			names = append(names, w.name)
		}
	}
	return names
}

// holds reports whether the advice does about as well as the best.
func (j *judged) holds() bool {
	return j.after.hits >= j.best.hits-.01 && j.after.p90.Seconds() <= 1.05*j.best.p90.Seconds()
}

// String writes figures as the table has them.
func (f figures) String() string { return fmt.Sprintf("%.1f, %.3f", 100*f.hits, f.p90.Seconds()) }

// advised says what is advised of a knob.
func (j *judged) advised(knob advice.Knob) string {
	if j.advice.TooLittle != "" {
		return j.advice.TooLittle
	}
	for _, c := range j.advice.Curves {
		if c.Knob != knob {
			continue
		}
		switch c.Verdict {
		case advice.Set:
			return "**" + grouped(int(c.Advised.Number)) + "**"
		case advice.Keep:
			if c.Advised.Number < c.Present.Number {
				return "keep; " + grouped(int(c.Advised.Number)) + " would do"
			}
		case advice.Flat, advice.Unsure:
		}
		return string(c.Verdict)
	}
	return ""
}

// interval writes an interval in percent.
func interval(i advice.Interval, format string) string {
	return fmt.Sprintf(format+" ("+format+" … "+format+")", 100*i.Estimate, 100*i.Low, 100*i.High)
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
