package comparison

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// Strategies returns the names of all that can be compared: the router's strategies, then
// the placements that only a replay has.
func Strategies() []string { return slices.Concat(router.Strategies(), placements()) }

func placements() []string {
	var all []string
	for _, p := range replay.Placements() {
		all = append(all, string(p))
	}
	return all
}

// defaultStrategies are compared where none is named.
func defaultStrategies() []string {
	return []string{
		router.Random, router.LeastOutstanding, router.PrefixHash, router.PrefixAware,
		router.LeastExpectedTTFT, string(replay.Oracle),
	}
}

// Choose returns a fleet with a strategy or placement that [Strategies] names.
func Choose(fleet replay.Config, strategy string) replay.Config {
	if placement := replay.Placement(strategy); slices.Contains(replay.Placements(), placement) {
		fleet.Placement = placement
	} else {
		fleet.Router.Strategy = strategy
	}
	return fleet
}

// parseStrategies takes names in any case.
func parseStrategies(names []string) ([]string, error) {
	var known []string
	for _, name := range names {
		name = strings.ToUpper(strings.TrimSpace(name))
		switch {
		case !slices.Contains(Strategies(), name):
			return nil, fmt.Errorf("--strategy: %q is not one of %s", name, strings.Join(Strategies(), ", "))
		case slices.Contains(known, name):
			return nil, fmt.Errorf("--strategy: %s is named twice", name)
		}
		known = append(known, name)
	}
	if len(known) == 0 {
		return nil, errors.New("--strategy: name at least one of " + strings.Join(Strategies(), ", "))
	}
	return known, nil
}
