package replay

import (
	"cmp"
	"slices"
)

// minMatchShare is the part of a prompt that makes a match.
const minMatchShare = 0.25

// longestMatch is [LongestMatch]. Equal matches go to the fewest in flight, then at random.
func longestMatch(all []candidate) candidate {
	match := func(c candidate) float64 {
		if c.share < minMatchShare {
			return 0
		}
		return c.share
	}
	within := withinBound(all) // the fewest in flight of all are always among them
	return slices.MinFunc(within, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(match(b), match(a)), cmp.Compare(a.inFlight, b.inFlight), cmp.Compare(a.draw, b.draw))
	})
}
