package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/internal/workload"
)

// Watcher is told how a run gets on. Its methods are called from one strategy at a
// time, Answered from many goroutines.
type Watcher interface {
	// Begin is called when a strategy's fleet is up.
	Begin(strategy string, requests int)
	// Answered is called after each request, whether or not it went well.
	Answered()
	// End is called when a strategy is through.
	End(Result)
}

// Run sends the workload to a new fleet for each strategy, one after the other, and
// returns what came of each, in order. watch may be nil. The results that are
// complete are returned along with an error.
func Run(ctx context.Context, cfg Config, text workload.Text, watch Watcher) ([]Result, error) {
	results, left, err := run(ctx, cfg, text, watch, "", func(string) {})
	if left.fleet != nil {
		_ = left.fleet.stop() // not asked for
	}
	return results, err
}

// left is what there is beside results when all strategies are through.
type left struct {
	fleet      *fleet      // that was to be kept, nil for none
	experience *experience // of the strategy on which advice is given, nil where it did not get so far
}

// run is [Run]; the fleet of the strategy keep is left running, and dashboard is told where the
// page of the first fleet is. Those that follow have it at the same address where they can.
func run(ctx context.Context, cfg Config, text workload.Text, watch Watcher, keep string, dashboard func(url string)) (results []Result, l left, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, l, err
	}
	text = text.Limit(cfg.Requests)
	if err := text.Validate(); err != nil {
		return nil, l, err
	}
	if watch == nil {
		watch = unwatched{}
	}
	admin := anyPort
	for _, strategy := range cfg.Strategies {
		f, err := startFleet(ctx, cfg, strategy, admin)
		if err != nil && admin != anyPort { // somebody has it, perhaps the fleet that is kept
			f, err = startFleet(ctx, cfg, strategy, anyPort)
		}
		if err != nil {
			return results, l, fmt.Errorf("%s: %w", strategy, err)
		}
		if at := f.gateway.admin; at != "http://"+admin {
			admin = strings.TrimPrefix(at, "http://")
			dashboard(at + "/")
		}
		watch.Begin(strategy, text.Requests())
		result, err := f.measure(ctx, cfg, text, strategy, watch)
		if strategy == cfg.advisedOn() {
			l.experience = f.experience(ctx, cfg, strategy, result.Requests-result.Errors)
		}
		if strategy == keep && err == nil {
			l.fleet = f
		} else if stopErr := f.stop(); err == nil && stopErr != nil {
			err = stopErr
		}
		if err != nil {
			return results, l, fmt.Errorf("%s: %w", strategy, err)
		}
		watch.End(result)
		results = append(results, result)
	}
	return results, l, nil
}

// measure plays the workload to the fleet.
func (f *fleet) measure(ctx context.Context, cfg Config, text workload.Text, strategy string, watch Watcher) (Result, error) {
	m := newMeasure(strategy, f.backends, cfg.Speed)
	c := newClient(f.gateway.url, cfg.Users)
	defer c.close()
	p := &player{
		client: c,
		text:   text,
		users:  cfg.Users,
		speed:  cfg.Speed,
		heed: func(a answer, err error) {
			m.add(a, err)
			watch.Answered()
		},
		stop: m.hopeless,
	}
	err := p.play(ctx)
	return m.sum(), err
}

// unwatched is the watcher of those who only want the results.
type unwatched struct{}

func (unwatched) Begin(string, int) {}
func (unwatched) Answered()         {}
func (unwatched) End(Result)        {}
