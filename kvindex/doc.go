// Package kvindex answers one question: which backend holds which leading
// blocks of a prompt in its KV cache.
//
// It owns three nouns. A [Stream] is the prompt key stream: the canonical bytes
// of a rendered prompt, in the order the engine renders it. A [Key] is a block
// key: the chained hash of a fixed run of the stream that names the block and
// all blocks before it, seeded by a [Scope] so that prompts that cannot share a
// cache never share a key. An [Index] records which backend holds which keys;
// [Memory] is the one that decides every request.
//
// Two invariants hold after every operation. Whoever holds a block holds its
// parent, so [Index.Match] may bisect instead of visiting every block. And an
// entry's stamp is never newer than its parent's, so forgetting everything last
// used before a moment always removes tails and never punches holes.
//
// The package is pure: no network, no disk, no clock. Times come in as [Stamp]
// values. Whatever talks to Redis is a child package.
package kvindex
