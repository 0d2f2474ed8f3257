package router

import (
	"encoding/binary"
	"math"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/zeebo/xxh3"
)

// hashID hashes a backend id for rendezvous.
func hashID(id string) uint64 { return xxh3.HashString(id) }

// rendezvous scores a backend for a key: the backend with the highest score comes
// first. Every router computes the same order from the same ids and weights, and a
// backend that comes or goes moves only its own share of keys. The weighted form
// is −weight ÷ ln(u), with u uniform in (0, 1).
func rendezvous(key kvindex.Key, backendHash uint64, weight float64) float64 {
	var pair [16]byte
	binary.LittleEndian.PutUint64(pair[:8], uint64(key))
	binary.LittleEndian.PutUint64(pair[8:], backendHash)
	u := (float64(xxh3.Hash(pair[:])>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}
