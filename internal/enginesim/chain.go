package enginesim

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// BlockID names a full block of tokens together with all tokens before it, in
// the sense of vLLM's chained block hashes.
type BlockID uint64

// Root returns the parent of the first block of a prompt. Prompts with
// different identity or salt share no block: identity is the adapter (or served
// model) name, salt the request's cache_salt.
func Root(identity, salt string) BlockID {
	h := xxh3.HashString(identity)
	if salt == "" {
		return BlockID(h)
	}
	return BlockID(xxh3.HashStringSeed(salt, h|1))
}

// Chain appends to dst the ids of all full blocks of tokens, blockSize tokens
// each, following the block root. A partial last block has no id. The same
// tokens under the same root always give the same ids.
func Chain(dst []BlockID, root BlockID, tokens []Token, blockSize int) []BlockID {
	if blockSize <= 0 {
		return dst
	}
	buf := make([]byte, 8+4*blockSize)
	parent := root
	for len(tokens) >= blockSize {
		binary.LittleEndian.PutUint64(buf, uint64(parent))
		for i, token := range tokens[:blockSize] {
			binary.LittleEndian.PutUint32(buf[8+4*i:], uint32(token))
		}
		parent = BlockID(xxh3.Hash(buf))
		dst = append(dst, parent)
		tokens = tokens[blockSize:]
	}
	return dst
}

// HashTokens returns a hash of all tokens, full blocks or not, under a root. It
// seeds the answer to a prompt.
func HashTokens(root BlockID, tokens []Token) uint64 {
	h := mix(uint64(root))
	for _, token := range tokens {
		h = mix(h ^ uint64(token))
	}
	return h
}
