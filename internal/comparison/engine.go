package comparison

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
)

// referenceProfile is the name of [replay.ReferenceProfile] among the profiles.
const referenceProfile = "reference"

// referenceKVTokens is its KV cache in tokens, unless --kv-tokens says otherwise: that of a
// 70B model on eight H100.
const referenceKVTokens = 1_330_000

// maxOverhead bounds what a request takes beside the model, so that times do not overflow.
const maxOverhead = 10 * time.Minute

// engine is what the flags say of each engine. What is 0 is the profile's.
type engine struct {
	profile          string
	kvTokens         int
	blockSize        int
	prefillRate      float64 // tokens per second
	overhead         time.Duration
	maxSeqs          int
	maxBatchedTokens int
}

func profileNames() string {
	return strings.Join(append([]string{referenceProfile}, enginesim.ProfileNames()...), ", ")
}

// config puts the engine together. Errors name flags.
func (e engine) config() (enginesim.Config, error) {
	profile := replay.ReferenceProfile(referenceKVTokens)
	if e.profile != referenceProfile {
		var err error
		if profile, err = enginesim.ProfileByName(e.profile); err != nil {
			return enginesim.Config{}, fmt.Errorf("--profile: %q is not one of %s", e.profile, profileNames())
		}
	}
	if e.prefillRate != 0 && !(e.prefillRate >= 1 && e.prefillRate <= 1e9) {
		return enginesim.Config{}, fmt.Errorf("--prefill-rate: must be in 1..1e9 tokens per second, or 0 for the profile's, is %v", e.prefillRate)
	}
	if e.prefillRate > 0 {
		profile.PrefillPerToken, profile.AttentionPerPair = float64(time.Second)/e.prefillRate, 0
	}
	if e.overhead > maxOverhead {
		return enginesim.Config{}, fmt.Errorf("--request-overhead: %v is more than %s", e.overhead, short(maxOverhead))
	}
	if e.overhead != 0 {
		profile.RequestOverhead = e.overhead
	}
	return enginesim.Config{
		Profile: profile, KVTokens: cmp.Or(e.kvTokens, profile.KVTokens), BlockSize: cmp.Or(e.blockSize, enginesim.DefaultBlockSize),
		MaxSeqs: e.maxSeqs, MaxBatchedTokens: e.maxBatchedTokens,
	}, nil
}
