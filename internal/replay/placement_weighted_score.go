package replay

import (
	"cmp"
	"slices"
)

// prefixWeight is what the score of the prefix counts against that of the queue.
const prefixWeight = 2

// weightedScore is [WeightedScore]. The queue is the requests without a first token: the
// shortest scores 1, the longest 0, and all 1 when they are equal. Equal sums go at random.
func weightedScore(all []candidate) candidate {
	byQueue := func(a, b candidate) int { return cmp.Compare(a.waiting, b.waiting) }
	shortest, longest := slices.MinFunc(all, byQueue).waiting, slices.MaxFunc(all, byQueue).waiting
	score := func(c candidate) float64 {
		return prefixWeight*c.share + 1 - ratio(c.waiting-shortest, longest-shortest)
	}
	return slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a.draw, b.draw))
	})
}
