package prompt

import "github.com/warmroute/warmroute/kvindex"

// Keys are the block keys of one prompt in one scope. Blocks is the Request's own
// memory: it is valid until the next Hash or Release.
type Keys struct {
	// Blocks holds one key per full block, chained from the scope's seed.
	Blocks []kvindex.Key
	// Kept are those, and after them the keys of what is kept beyond the PrefixLength
	// (kvindex.KeptBytes), in the same memory: they say what a longer one would find.
	Kept []kvindex.Key
	// StreamBytes is the length of the whole key stream in bytes.
	StreamBytes int
	// HashedBytes is how many leading bytes of it were hashed: all, unless
	// PrefixLength cut the stream.
	HashedBytes int
	// Prefix names everything that was hashed, the partial last block included
	// (kvindex.PrefixKey). It is the scope's seed if nothing was.
	Prefix kvindex.Key
	// Rendezvous is the key by which replicas agree before they have learned
	// anything (kvindex.RendezvousKey). It is 0 without a prefix.
	Rendezvous kvindex.Key
	// HasPrefix reports whether there are at least two blocks. A prompt without is
	// placed by load.
	HasPrefix bool
}

// Hash builds the key stream and its block keys in scope. prefixLength bounds how
// much is hashed, in Unicode characters of message text ([Raw]: in bytes of the
// body); kvindex.Unlimited hashes everything. hint steers only the rendezvous key.
//
// A scope without a salt takes the request's own cache_salt: engines never share
// cache across salts. A block size of 0 is kvindex.DefaultBlockBytes.
//
// [Embeddings] and [Opaque] bodies have no keys.
func (r *Request) Hash(scope kvindex.Scope, prefixLength int, hint string) Keys {
	if r.kind == Embeddings || r.kind == Opaque {
		return Keys{}
	}
	prefixLength = max(prefixLength, kvindex.Unlimited)
	if !r.ready || r.limit != prefixLength {
		r.write(prefixLength)
	}
	if scope.Salt == "" {
		scope.Salt = r.salt
	}
	if scope.BlockBytes <= 0 {
		scope.BlockBytes = kvindex.DefaultBlockBytes
	}
	stream := r.w.stream.Bytes()
	seed := scope.Seed()
	r.keys = kvindex.AppendKeys(r.keys[:0], seed, r.w.stream.Kept(), scope.BlockBytes)
	blocks := r.keys[:len(stream)/scope.BlockBytes]
	k := Keys{
		Blocks:      blocks,
		Kept:        r.keys,
		StreamBytes: r.w.stream.Total(),
		HashedBytes: len(stream),
		Prefix:      kvindex.PrefixKey(seed, blocks, stream, scope.BlockBytes),
	}
	k.Rendezvous, k.HasPrefix = kvindex.RendezvousKey(blocks, scope.BlockBytes, hint)
	return k
}

// write fills the stream.
func (r *Request) write(prefixLength int) {
	r.w.stream.Reset(prefixLength, len(r.body))
	r.w.binary = false
	switch r.kind {
	case Chat, Messages:
		r.w.head(&r.top)
		if r.kind == Messages {
			r.w.system(r.top.system)
		}
		for m := range r.top.messages.elements() {
			r.w.message(m)
		}
		r.w.tail(&r.top)
	case Responses:
		r.w.head(&r.top)
		r.w.system(r.top.instructions)
		r.w.input(r.top.input)
		r.w.tail(&r.top)
	case Completions:
		r.w.completion(&r.env)
	case Raw:
		r.w.stream.Raw(r.body)
	case Embeddings, Opaque:
	}
	r.limit, r.ready = prefixLength, true
}
