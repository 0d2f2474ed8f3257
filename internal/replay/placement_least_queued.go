package replay

import (
	"cmp"
	"slices"
)

// leastQueuedTokens is [LeastQueuedTokens]. What waits is what a router sees: prompts sent
// whose first token has not come back, in full, less what the engine must have worked off
// since it last showed one.
func leastQueuedTokens(all []candidate) candidate {
	return slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.backlog, b.backlog), cmp.Compare(a.draw, b.draw))
	})
}
