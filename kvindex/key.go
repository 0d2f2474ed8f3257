package kvindex

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// KeyVersion is the version of everything that decides a key's value: the
// framing of the stream, the seed and the chain. It is part of the seed, and of
// every name under which keys leave the process, so that routers of mixed
// versions never read each other's keys.
const KeyVersion = 1

// DefaultBlockBytes is the default size of a block in bytes of key stream, about
// 64 tokens of English text.
const DefaultBlockBytes = 256

// MinBlockBytes and MaxBlockBytes bound the size of a block, in bytes.
const (
	MinBlockBytes = 64
	MaxBlockBytes = 4096
)

// RendezvousBytes is how many leading bytes of the stream the rendezvous key may
// cover: long enough to tell applications apart, short enough that the turns of
// one conversation agree.
const RendezvousBytes = 4096

// Key names one block and, through the chain, all blocks before it.
type Key uint64

// Scope is everything that must be equal for a match to be claimed. Different
// scopes seed different chains, so they share no key.
type Scope struct {
	// BlockBytes is the size of a block in bytes of key stream.
	BlockBytes int
	// Pool is the name of the pool.
	Pool string
	// Model is the served model name after alias, or the adapter name.
	Model string
	// Salt is the request's cache_salt, empty when it has none.
	Salt string
	// TenantID separates the affinity of equal prompts, empty when it does not.
	TenantID string
	// Secret is the fleet-wide key_seed, empty when none is configured. It keeps
	// tenants who can guess prompts from guessing keys.
	Secret string
}

// Seed returns the parent of the first block of every chain in this scope.
// Fields are length-prefixed: no two different scopes have the same encoding.
func (s Scope) Seed() Key {
	var buf [256]byte
	b := append(buf[:0], KeyVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.BlockBytes))
	for _, field := range [...]string{s.Pool, s.Model, s.Salt, s.TenantID, s.Secret} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	return Key(xxh3.Hash(b))
}

// AppendKeys appends the block keys of stream to dst and returns the extended
// slice: one key per full block of blockBytes bytes, chained from seed. A partial
// last block is not a block. It allocates only to grow dst.
func AppendKeys(dst []Key, seed Key, stream []byte, blockBytes int) []Key {
	parent := seed
	for len(stream) >= blockBytes {
		parent = chain(parent, stream[:blockBytes])
		dst = append(dst, parent)
		stream = stream[blockBytes:]
	}
	return dst
}

// chain returns the key of block under parent:
// xxh3_64(LE64(parent) ‖ LE64(xxh3_64(block))). The block is hashed unseeded and
// mixed afterwards because deriving a secret for each seed would cost twice as
// much at the usual block sizes.
func chain(parent Key, block []byte) Key {
	var link [16]byte
	binary.LittleEndian.PutUint64(link[:8], uint64(parent))
	binary.LittleEndian.PutUint64(link[8:], xxh3.Hash(block))
	return Key(xxh3.Hash(link[:]))
}

// PrefixKey names the whole hashed stream, its partial last block included: the
// identity that static prefix hashing uses. keys are the stream's block keys.
func PrefixKey(seed Key, keys []Key, stream []byte, blockBytes int) Key {
	parent := seed
	if len(keys) > 0 {
		parent = keys[len(keys)-1]
	}
	tail := stream[len(keys)*blockBytes:]
	if len(tail) == 0 {
		return parent
	}
	return chain(parent, tail)
}

// RendezvousKey is the key by which replicas that have learned nothing yet agree
// on a backend: the chained key of the last full block within the first
// [RendezvousBytes] bytes, mixed with the caller's affinity hint when there is
// one. A stream of fewer than two blocks has no prefix: ok is false and the
// request is placed by load.
func RendezvousKey(keys []Key, blockBytes int, hint string) (key Key, ok bool) {
	if len(keys) < 2 {
		return 0, false
	}
	key = keys[min(len(keys), max(RendezvousBytes/blockBytes, 1))-1]
	if hint != "" {
		var link [16]byte
		binary.LittleEndian.PutUint64(link[:8], uint64(key))
		binary.LittleEndian.PutUint64(link[8:], xxh3.HashString(hint))
		key = Key(xxh3.Hash(link[:]))
	}
	return key, true
}
