package prompt

import "github.com/warmroute/warmroute/kvindex"

// UsageAsk says what a request says about stream_options.include_usage.
type UsageAsk uint8

// What a request may say about the usage of its stream.
const (
	// UsageUnset: it does not say.
	UsageUnset UsageAsk = iota
	// UsageYes: include_usage is true.
	UsageYes
	// UsageNo: include_usage is false.
	UsageNo
)

// Request is what was read from one body.
type Request struct {
	model, salt, cacheKey, previous string
}

// Keys are the block keys of one prompt in one scope.
type Keys struct {
	// Blocks holds one key per full block, chained from the scope's seed.
	Blocks []kvindex.Key
	// StreamBytes is the length of the whole key stream in bytes.
	StreamBytes int
	// HashedBytes is how many leading bytes of it were hashed.
	HashedBytes int
	// Prefix names the whole hashed stream (kvindex.PrefixKey).
	Prefix kvindex.Key
	// Rendezvous is kvindex.RendezvousKey, mixed with the hint.
	Rendezvous kvindex.Key
	// HasPrefix reports whether there are at least two blocks.
	HasPrefix bool
}

// Parse reads body.
func Parse(kind Kind, body []byte) (*Request, error) { return &Request{}, nil }

// Release returns r to the pool.
func (r *Request) Release() {}

// Model returns the model, empty when the request names none.
func (r *Request) Model() string { return r.model }

// Streaming reports whether the answer is to be streamed.
func (r *Request) Streaming() bool { return false }

// N returns how many answers are asked for, at least 1.
func (r *Request) N() int { return 1 }

// UsageAsked returns what the request says about stream_options.include_usage.
func (r *Request) UsageAsked() UsageAsk { return UsageUnset }

// Salt returns cache_salt.
func (r *Request) Salt() string { return r.salt }

// CacheKey returns prompt_cache_key.
func (r *Request) CacheKey() string { return r.cacheKey }

// PreviousResponseID returns previous_response_id.
func (r *Request) PreviousResponseID() string { return r.previous }

// NoEvidence reports whether the cached-token numbers of this request say nothing
// about the cache.
func (r *Request) NoEvidence() bool { return false }

// HasBinary reports whether the prompt has images, audio, video or embeddings.
func (r *Request) HasBinary() bool { return false }

// Hash builds the key stream and its keys for a scope.
func (r *Request) Hash(scope kvindex.Scope, prefixLength int, hint string) Keys { return Keys{} }
