package main

import (
	"fmt"
	"io"
	"strings"
)

const introduction = `# Policies

Every strategy, and the placements of others to compare with, in the same worlds: modelled engines in virtual time behind
the router's own code ([how](README.md)). Seven engines of the step model that the project's figures rest on (18 ms a step,
20 ns for each token of decoded context, 20 µs for each decoding sequence, 10,000 prefill tokens a second, at most 2,048
tokens a step and 256 sequences), scraped every 5 s, from empty caches, seed 1 where no others are named. Times to first token in seconds over the whole run.

` + "`make policy-bench`" + ` writes this page and [policies.csv](policies.csv) anew, the same on machines of one architecture. What the
columns mean: [replay.md](../replay.md). Losses and noise are in [feedback.md](feedback.md).
`

// remark says why what does not hold does not.
const remark = `
` + "`docs`" + ` at 3.5/s with 0.25 s of overhead: half of all prompts begin their answer within 0.29 s, 0.25 s of overhead, a step of 18 ms,
10 ms for a hundred tokens of question, and on average half a step until the engine takes them in. With random placement it is
1.15 s. A router that found every document cached would take 75.0 % off.
`

// writeMarkdown writes the page: the worlds, then what must hold.
func writeMarkdown(w io.Writer, chosen []world, all map[string]results, verdicts []verdict) {
	fmt.Fprint(w, introduction)
	for _, world := range chosen {
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n", world.name, world.conditions())
		fmt.Fprint(w, "| | hit % | P50 | P90 | mean | shares % |\n|---|---|---|---|---|---|\n")
		for _, name := range world.strategies() {
			r := all[world.name][name]
			least, most := r.Shares()
			fmt.Fprintf(w, "| `%s` | %.1f | %.3f | %.3f | %.3f | %.1f–%.1f |\n", name, 100*r.HitRate(),
				r.Quantile(.5).Seconds(), r.Quantile(.9).Seconds(), r.Mean().Seconds(), 100*least, 100*most)
		}
	}
	writeRelations(w, verdicts)
}

// writeRelations says of each relation whether it holds.
func writeRelations(w io.Writer, verdicts []verdict) {
	if len(verdicts) == 0 {
		return
	}
	hold := 0
	for _, v := range verdicts {
		if v.holds {
			hold++
		}
	}
	fmt.Fprintf(w, "\n## Relations\n\n%d of %d hold.\n\n", hold, len(verdicts))
	fmt.Fprint(w, "| what | world | figure | target | |\n|---|---|---|---|---|\n")
	for _, v := range verdicts {
		verdict := "**does not hold**"
		if v.holds {
			verdict = "holds"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", v.claim, v.world, v.figure, v.target, verdict)
	}
	fmt.Fprint(w, remark)
}

// conditions says what a world is like.
func (w world) conditions() string {
	parts := []string{fmt.Sprintf("%d tokens of KV each, %s", w.kvTokens, statement(w.stated))}
	if w.overhead > 0 {
		parts = append(parts, fmt.Sprintf("%v of overhead a request", w.overhead))
	}
	if w.routers > 1 && w.shareDelay > 0 {
		parts = append(parts, fmt.Sprintf("%d routers that share within %v", w.routers, w.shareDelay))
	} else if w.routers > 1 {
		parts = append(parts, fmt.Sprintf("%d routers that know nothing of each other", w.routers))
	}
	if w.threshold > 0 {
		parts = append(parts, fmt.Sprintf("`concurrency_threshold: %d`", w.threshold))
	}
	if n := len(w.seeds()); n > 1 {
		parts = append(parts, fmt.Sprintf("the requests of seeds 1 to %d together", n))
	}
	return strings.Join(parts, "; ") + "."
}

// statement says what engines tell of their capacity.
func statement(stated float64) string {
	switch stated {
	case 0:
		return "not stated"
	case 1:
		return "stated"
	}
	return fmt.Sprintf("stated × %.2g", stated)
}
