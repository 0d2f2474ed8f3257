package replay

import (
	"math"

	"github.com/warmroute/warmroute/internal/workload"
)

// run is a segment in units of some medium: tokens for an engine, bytes of key stream for
// the router.
type run struct {
	id     uint64
	length int
}

// appendTokenRuns appends the segments as an engine sees them: those of the prompt, and
// what follows it. When divergeAt is not negative, everything after that many tokens is
// other content, known by the name other.
func appendTokenRuns(dst []run, prompt, follow []workload.Segment, divergeAt int, other uint64) []run {
	left := divergeAt
	for _, part := range [2][]workload.Segment{prompt, follow} {
		for _, s := range part {
			if divergeAt < 0 {
				dst = append(dst, run{s.ID, s.Tokens})
				continue
			}
			if same := min(left, s.Tokens); same > 0 {
				dst = append(dst, run{s.ID, same})
				left -= same
				s.Tokens -= same
			}
			if s.Tokens > 0 {
				dst = append(dst, run{other, s.Tokens})
				other = workload.Mix(other)
			}
		}
	}
	return dst
}

// appendChain appends the chained names of all full blocks of size units: each names the
// block and all before it, from seed on. A partial last block has no name.
func appendChain[T ~uint64](dst []T, seed T, runs []run, size int) []T {
	parent := uint64(seed)
	filled, block := 0, uint64(0)
	for _, r := range runs {
		for at := 0; at < r.length; {
			n := min(size-filled, r.length-at)
			block = workload.Mix(block ^ r.id)
			block = workload.Mix(block ^ uint64(at)<<32 ^ uint64(n))
			at += n
			if filled += n; filled == size {
				parent = workload.Mix(parent ^ block)
				dst = append(dst, T(parent))
				filled, block = 0, 0
			}
		}
	}
	return dst
}

// units converts segments to bytes of key stream.
type units struct {
	bytesPerToken float64
	// spread is how far a content's own bytes per token may lie from that, 0..1.
	spread float64
	seed   uint64
}

// bytes is the length of a segment in bytes of key stream. It depends on the content
// alone, so that equal content has equal keys.
func (u units) bytes(s workload.Segment) int {
	perToken := u.bytesPerToken
	if u.spread > 0 {
		perToken *= 1 + u.spread*(2*unit(workload.Mix(u.seed^s.ID))-1)
	}
	return int(math.Round(float64(s.Tokens) * perToken))
}

// unit maps a hash to 0..1.
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
