package workload

// Segment is a run of tokens known by the name of its content. Two segments with one ID
// have the same tokens as far as both go; segments with different IDs have nothing in
// common.
type Segment struct {
	// ID names the content.
	ID uint64
	// Tokens is the run's length.
	Tokens int
}

// Tokens is the length of a chain of segments in tokens.
func Tokens(segments []Segment) int {
	n := 0
	for _, s := range segments {
		n += s.Tokens
	}
	return n
}

// Mix spreads x over 64 bits (the finaliser of splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// nameOf names one of the contents of a scope.
func nameOf(scope, which uint64) uint64 { return Mix(Mix(scope) ^ which) }
