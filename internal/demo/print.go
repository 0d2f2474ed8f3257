package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmroute/warmroute/router"
)

// printJSON prints one array.
func printJSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// printTable prints the results as a table, and what they mean.
func printTable(w io.Writer, cfg Config, results []Result, late time.Duration) error {
	if len(results) == 0 {
		return nil
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "strategy\trequests\thit rate\tTTFT P50\tTTFT P90\tshare per backend\toverflow\terrors")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%.1f %%\t%.2f s\t%.2f s\t%.1f–%.1f %%\t%.1f %%\t%d\n", r.Strategy, r.Requests, 100*r.HitRate,
			r.TTFTP50, r.TTFTP90, 100*r.ShareMin, 100*r.ShareMax, 100*r.OverflowShare, r.Errors)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	out.WriteByte('\n')
	for _, line := range remarks(cfg, results, late) {
		out.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// hops is about how often somebody must be woken up between a client's request and its
// first token: client, router and engine, there and back.
const hops = 4

// slowShare is the part of a P50 TTFT from which on a machine's lateness is worth a
// remark.
const slowShare = 0.25

// remarks says what the figures mean, and what is wrong with them.
func remarks(cfg Config, results []Result, late time.Duration) []string {
	simulated := hops * late.Seconds() * cfg.Speed
	slow := slices.ContainsFunc(results, func(r Result) bool { return simulated > slowShare*r.TTFTP50 && r.TTFTP50 > 0 })
	lines := []string{meaning(results, !slow)}
	lines = append(lines, fmt.Sprintf("Hit rate: cached ÷ prompt tokens, as the engines report them. TTFT: at the client, in simulated seconds (the clock's × %g).", cfg.Speed))
	for _, r := range results {
		if r.Err != nil {
			lines = append(lines, fmt.Sprintf("%s: %d of %d requests failed; the first: %v", r.Strategy, r.Errors, r.Requests, r.Err))
		}
	}
	if slow {
		lines = append(lines, fmt.Sprintf("This machine is too busy for --speed %g: times to first token include about %.2f s that no engine took. Try --speed %.3g.",
			cfg.Speed, simulated, max(cfg.Speed/4, minSpeed)))
	}
	return lines
}

// meaning compares the router's own strategy with placing at random, where both ran,
// and their times where those can be trusted.
func meaning(results []Result, timed bool) string {
	find := func(strategy string) *Result {
		i := slices.IndexFunc(results, func(r Result) bool { return r.Strategy == strategy && r.Requests > r.Errors })
		if i < 0 {
			return nil
		}
		return &results[i]
	}
	aware, random := find(router.PrefixAware), find(router.Random)
	if aware == nil || random == nil {
		return "Compare RANDOM with PREFIX_AWARE to see what knowing the caches is worth."
	}
	missed := func(r *Result) float64 { return float64(r.PromptTokens - r.CachedTokens) }
	text := fmt.Sprintf("PREFIX_AWARE found %.0f %% of the prompt tokens cached where RANDOM found %.0f %%", 100*aware.HitRate, 100*random.HitRate)
	if missed(aware) > 0 {
		text += fmt.Sprintf(": the engines computed %.1f times fewer prompt tokens", missed(random)/missed(aware))
	}
	if timed && aware.TTFTP50 > 0 {
		text += fmt.Sprintf(", and half of the answers began %.1f times sooner", random.TTFTP50/aware.TTFTP50)
	}
	if hash := find(router.PrefixHash); hash != nil && spread(hash) > 2*spread(aware) {
		text += fmt.Sprintf("; PREFIX_HASH spread the requests unevenly, %.0f–%.0f %% a backend, PREFIX_AWARE %.0f–%.0f %%",
			100*hash.ShareMin, 100*hash.ShareMax, 100*aware.ShareMin, 100*aware.ShareMax)
	}
	return text + "."
}

// spread is how far apart the shares of the idlest and the busiest backend are.
func spread(r *Result) float64 { return r.ShareMax - r.ShareMin }
