package intake

import (
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// Limits of what clients name things, in printable ASCII characters.
const (
	// MaxTenant is the longest tenant id.
	MaxTenant = 64
	// MaxRequestID is the longest request id that is kept.
	MaxRequestID = 256
)

// Printable reports whether s is printable ASCII, at least 1 and at most limit
// characters, the first not a space.
func Printable(s string, limit int) bool {
	if s == "" || len(s) > limit || s[0] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Source is where a prompt comes from, as far as its identity depends on it.
type Source struct {
	// Target is where its model's requests go.
	Target router.Target
	// Route is the pattern of its endpoint's path.
	Route string
	// TenantID separates equal prompts, empty for nothing.
	TenantID string
	// KeyIsTenant makes prompt_cache_key a tenant id, whatever the pool makes of it
	// elsewhere.
	KeyIsTenant bool
	// KeySeed is the fleet-wide secret of the block keys, empty for none.
	KeySeed string
	// AnyRank says that engines choose among their data-parallel ranks by themselves on
	// this route.
	AnyRank bool
}

// Ask fills in what the router is asked about a prompt and what the request's record
// tells of it: the block keys in their scope, and what the answer will prove. The keys
// are p's until its Release; everything else that was needed to compute them is let go.
func Ask(p *prompt.Request, from Source, ask *router.Request, record *feedback.Record) {
	pool := from.Target.Pool
	config := pool.Config()
	scope := kvindex.Scope{
		BlockBytes: config.BlockBytes,
		Pool:       pool.Name(),
		Model:      from.Target.Model,
		Salt:       p.Salt(),
		TenantID:   from.TenantID,
		Secret:     from.KeySeed,
	}
	hint, use := "", config.PromptCacheKey
	if key := p.CacheKey(); key != "" {
		switch {
		case from.KeyIsTenant && scope.TenantID == "" && Printable(key, MaxTenant):
			scope.TenantID = key // the same tenant as by the header
		case from.KeyIsTenant, use == router.CacheKeySeparate:
			scope.TenantID += "\x00" + key // a tenant id has no such character
		case use == router.CacheKeyHint:
			hint = key
		}
	}
	keys := p.Hash(scope, config.HashLength(), hint)
	ask.Blocks = keys.Blocks
	ask.StreamBytes, ask.HashedBytes = keys.StreamBytes, keys.HashedBytes
	ask.Prefix, ask.Rendezvous, ask.HasPrefix = keys.Prefix, keys.Rendezvous, keys.HasPrefix
	ask.Scope, ask.Route = scope.Seed(), from.Route
	ask.NoEvidence, ask.Binary = p.NoEvidence(), p.HasBinary()
	ask.AnyRank, ask.Adapter = from.AnyRank, from.Target.Adapter
	record.PromptBlocks, record.HasPrefix = len(keys.Blocks), keys.HasPrefix
	if keys.StreamBytes > 0 {
		record.Keys, record.BlockBytes, record.StreamBytes = keys.Kept, config.BlockBytes, keys.StreamBytes
	}
	p.Trim()
}
