package ops

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/warmroute/warmroute/internal/cli"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// applied sets what is advised, once somebody says yes, and watches what comes of it.
func (a *advising) applied(p *v1.PoolRouting, advice *v1.Advice, named string) error {
	change := advice.GetChange()
	if change == nil {
		return a.tell("\nThere is nothing to set.\n")
	}
	if err := a.tell("\n%s", difference(advice)); err != nil {
		return err
	}
	if yes, err := a.sure(); err != nil || !yes {
		return errors.Join(err, a.tell("Nothing was set.\n"))
	}
	before, err := a.lately(p.GetPool())
	if err != nil {
		return err
	}
	out, err := a.admin().SetRoutingConfig(a.cmd.Context(), &v1.SetRoutingConfigRequest{Pool: p.GetPool(), Config: change})
	if err != nil {
		return a.failed(err)
	}
	back := backCommand(p, out.GetBefore(), change, named)
	if a.output == "json" {
		return a.show(out, nil)
	}
	lasts := "It lasts until the router ends: it shares no Redis with others."
	if out.GetShared() {
		lasts = "All routers that share Redis follow, and those that start later."
	}
	if err := a.tell("It is set. %s\nTo go back: %s\n", lasts, back); err != nil || a.watchFor == 0 {
		return err
	}
	after, err := a.follow(p.GetPool(), before)
	if err != nil {
		return err
	}
	return a.tell("\n%s\n", judgement(before, after, back))
}

// tell prints for people; programs get messages only.
func (a *advising) tell(format string, args ...any) error {
	if a.output == "json" {
		return nil
	}
	_, err := fmt.Fprintf(a.cmd.OutOrStdout(), format, args...)
	return err
}

// difference is what of a pool's routing advice would change.
func difference(a *v1.Advice) string {
	var out strings.Builder
	t := newTable(text("SETTING"), number("BEFORE"), text(""), number("AFTER"))
	now, then := settings(a.GetPresent()), settings(a.GetAdvised())
	for i := range now {
		if now[i] != then[i] {
			t.row(now[i].name, now[i].value, "→", then[i].value)
		}
	}
	t.write(&out)
	return out.String()
}

// sure asks whether to go on.
func (a *advising) sure() (bool, error) {
	if a.yes {
		return true, nil
	}
	if err := a.tell("Set it? [y/N] "); err != nil {
		return false, err
	}
	answers := make(chan string, 1)
	go func() { // which may wait for as long as the process lives
		line, _ := bufio.NewReader(a.cmd.InOrStdin()).ReadString('\n')
		answers <- line
	}()
	select {
	case answer := <-answers:
		return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))), nil
	case <-a.cmd.Context().Done():
		return false, cli.ErrInterrupted
	}
}

// backCommand is the command that takes a change back: to the configuration, where that was in
// force, else to what was set before.
func backCommand(p *v1.PoolRouting, before, change *v1.RoutingConfig, named string) string {
	if proto.Equal(p.GetChanged(), new(v1.RoutingConfig)) {
		command := "warmroute strategy reset"
		if named != "" {
			command += " --pool " + named
		}
		return command
	}
	back := new(v1.RoutingConfig)
	if change.PrefixLength != nil {
		back.PrefixLength = before.PrefixLength
	}
	if change.ConcurrencyThreshold != nil {
		back.ConcurrencyThreshold = before.ConcurrencyThreshold
	}
	return setCommand(back, named)
}

// delivered is what became of some requests: what their engines reported, and how soon their
// answers began.
type delivered struct {
	requests       int
	prompt, cached uint64 // of the answers that report both
	ttfts          []time.Duration
	latest         time.Time // when the last of them came, by the router's clock
}

// add takes in a request that was answered.
func (d *delivered) add(r *v1.DecisionRecord) {
	if start := r.GetStart().AsTime(); start.After(d.latest) {
		d.latest = start
	}
	if r.GetResult() != "success" {
		return
	}
	d.requests++
	if u := r.GetUsage(); u.PromptTokens != nil && u.CachedTokens != nil {
		d.prompt += uint64(u.GetPromptTokens())
		d.cached += uint64(u.GetCachedTokens())
	}
	if r.GetTtft() != nil {
		d.ttfts = append(d.ttfts, r.GetTtft().AsDuration())
	}
}

// p90 is that of the times to first data, 0 where there is none.
func (d *delivered) p90() time.Duration {
	if len(d.ttfts) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d.ttfts))
	return sorted[min(len(sorted)*9/10, len(sorted)-1)]
}

func (d *delivered) hitRate() float64 { return float64(d.cached) / float64(max(d.prompt, 1)) }

// row is a line of what is shown while it is watched.
func (d *delivered) row(when string) string {
	hits, p90 := percent(d.cached, d.prompt), "-"
	if len(d.ttfts) > 0 {
		p90 = took(d.p90())
	}
	return fmt.Sprintf("%-14s %8d  %8s  %9s\n", when, d.requests, hits, p90)
}

// lately is what became of the latest requests of a pool.
func (a *advising) lately(pool string) (*delivered, error) {
	const most = 10_000 // more than a router remembers
	out, err := a.admin().ListDecisions(a.cmd.Context(), &v1.ListDecisionsRequest{Pool: pool, Limit: most})
	if err != nil {
		return nil, a.failed(err)
	}
	before := new(delivered)
	for _, r := range out.GetDecisions() {
		before.add(r)
	}
	return before, nil
}

// followParts is in how many lines it is shown what comes of a change, and shortestWatch how
// long that must take at least.
const (
	followParts   = 4
	shortestWatch = followParts * 100 * time.Millisecond
)

// follow shows what becomes of the requests that arrive from now on, for as long as the flag
// says, and returns the last part of it: the first ones meet caches that were filled before.
// Being interrupted ends it early.
func (a *advising) follow(pool string, before *delivered) (*delivered, error) {
	ctx, stop := context.WithCancel(a.cmd.Context()) // a deadline would be the router's too, which may be sooner
	defer stop()
	stream, err := a.admin().WatchDecisions(ctx, &v1.WatchDecisionsRequest{Pool: pool})
	if err != nil {
		return nil, a.failed(err)
	}
	defer func() { _ = stream.Close() }()
	since, every := before.latest, a.watchFor/followParts // the router's clock may be another
	if err := a.tell("\n%-14s %8s  %8s  %9s\n%s", "", "REQUESTS", "HIT RATE", "TTFT P90", before.row("before")); err != nil {
		return nil, err
	}
	records := make(chan *v1.DecisionRecord)
	go func() {
		defer close(records)
		for stream.Receive() {
			select {
			case records <- stream.Msg().GetDecision():
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, part := new(delivered), new(delivered)
	for n := 1; n <= followParts; {
		select {
		case r, ok := <-records:
			switch {
			case ok && r.GetStart().AsTime().After(since):
				part.add(r)
			case ok:
			case interrupted(ctx):
				return last, nil
			default:
				return nil, cmp.Or(a.failed(stream.Err()), errors.New("the router ends"))
			}
		case <-tick.C:
			if err := a.tell("%s", part.row("after "+(time.Duration(n)*every).Round(time.Second/10).String())); err != nil {
				return nil, err
			}
			last, part = part, new(delivered)
			n++
		}
	}
	return last, nil
}

const (
	// worseHits is how much less of a hit rate, 0..1, is worth a warning, worseP90 how many
	// times as long a P90.
	worseHits = 0.02
	worseP90  = 1.1
)

// judgement compares what was delivered before and after.
func judgement(before, after *delivered, back string) string {
	switch {
	case after.requests == 0:
		return "No request was answered in the last part of that time: look again later (warmroute hits --since 5m)."
	case before.requests == 0:
		return "There is nothing to compare it with: no request was answered before."
	}
	hits, text := 0.0, "Not enough answers report cached tokens to compare hit rates;"
	if before.prompt > 0 && after.prompt > 0 {
		hits = after.hitRate() - before.hitRate()
		text = fmt.Sprintf("The hit rate went from %s to %s, and", share(before.hitRate()), share(after.hitRate()))
	}
	slower := after.p90().Seconds() / max(before.p90().Seconds(), 1e-9)
	text += fmt.Sprintf(" P90 from %s to %s.", took(before.p90()), took(after.p90()))
	if hits < -worseHits || before.p90() > 0 && slower > worseP90 {
		return text + " That is worse. It may be the traffic, or caches that still fill; if it stays, go back:\n  " + back
	}
	return text + " Look again once the caches have seen their usual traffic (warmroute hits --since 1h)."
}
