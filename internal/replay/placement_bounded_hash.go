package replay

import (
	"cmp"
	"slices"
)

// boundedHash is [BoundedHash].
func boundedHash(all []candidate) candidate {
	return slices.MaxFunc(withinBound(all), func(a, b candidate) int { return cmp.Compare(a.affinity, b.affinity) })
}
