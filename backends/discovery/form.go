package discovery

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// MaxRanks bounds the data-parallel ranks behind one URL.
const MaxRanks = 1024

// maxWeight bounds weights, so that sums of them stay exact enough.
const maxWeight = 1e6

// Form is what a source that finds addresses makes of one. The zero value makes one
// backend, over cleartext HTTP, of each.
type Form struct {
	// Scheme is http or https. Default http.
	Scheme string
	// Path is the engines' base path. Default none.
	Path string
	// Weight is each backend's share of load relative to others. Default 1.
	Weight float64
	// ConcurrencyThreshold is each backend's own. Default the pool's.
	ConcurrencyThreshold int
	// DataParallelRanks makes that many backends of each address. Default 0: the address
	// is one cache.
	DataParallelRanks int
}

// Validate names the first setting that makes no sense.
func (f Form) Validate() error {
	switch {
	case f.Scheme != "" && f.Scheme != "http" && f.Scheme != "https":
		return fmt.Errorf("scheme: %q is not http or https", f.Scheme)
	case strings.ContainsAny(f.Path, "?# "):
		return fmt.Errorf("path: %q is not a path: want one such as /engine, without query", f.Path)
	case !(f.Weight >= 0 && f.Weight <= maxWeight):
		return fmt.Errorf("weight: %v is not above 0, or above %g", f.Weight, maxWeight)
	case f.ConcurrencyThreshold < 0 || f.ConcurrencyThreshold > router.MaxConcurrencyThreshold:
		return fmt.Errorf("concurrency_threshold: %d is not in %d..%d", f.ConcurrencyThreshold, router.MinConcurrencyThreshold, router.MaxConcurrencyThreshold)
	case f.DataParallelRanks < 0 || f.DataParallelRanks > MaxRanks:
		return fmt.Errorf("data_parallel_ranks: %d is not in 0..%d", f.DataParallelRanks, MaxRanks)
	}
	return nil
}

// URL returns the base URL at an address, host:port; an IPv6 host is in brackets.
func (f Form) URL(address string) string {
	url := cmp.Or(f.Scheme, "http") + "://" + address
	if path := strings.Trim(f.Path, "/"); path != "" {
		url += "/" + path
	}
	return url
}

// At returns the backends at a base URL.
func (f Form) At(url string) []backends.Spec {
	one := backends.Spec{URL: url, Rank: backends.NoRank, Weight: f.Weight, ConcurrencyThreshold: f.ConcurrencyThreshold}
	if f.DataParallelRanks == 0 {
		return []backends.Spec{one}
	}
	all := make([]backends.Spec, f.DataParallelRanks)
	for rank := range all {
		all[rank] = one
		all[rank].Rank = rank
	}
	return all
}
