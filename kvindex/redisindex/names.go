package redisindex

import (
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// shards is how many sorted sets the blocks of one backend are spread over, so that no
// single one is large, and a cluster's nodes share the work.
const shards = 16

// shardOf returns the number of a block's set. Keys are hashes: any bits will do.
func shardOf(key kvindex.Key) int { return int(key >> 60) }

// maxLabel bounds the length of a backend's name in Redis, in bytes.
const maxLabel = 1024

// place is a backend as it is called in Redis.
type place struct {
	pool  string // name of its pool
	id    string // the backend's id in the pool
	label string // what it is called in names of keys and in messages
}

// listed is what the backend is called in the set of all backends.
func (p place) listed() string { return escaped.Replace(p.pool) + " " + p.label }

// escaped are characters that have a meaning in our names.
var escaped = strings.NewReplacer("%", "%25", " ", "%20", "{", "%7B", "}", "%7D")

// placeOf returns what a backend is called that the index knows by name. The label has
// the URL only where the id does not tell it.
func placeOf(name string) place {
	pool, id, url := router.SplitHolderName(name)
	address, _, _ := strings.Cut(id, "#")
	label := escaped.Replace(id)
	if url != "" && url != "http://"+address {
		label += "|" + escaped.Replace(url)
	}
	return place{pool: pool, id: id, label: label}
}

// names makes the names of keys. Those of one pool and shard, and those of a pool that
// belong to no shard, share a hash tag.
type names struct{ namespace, prefix string }

func newNames(namespace string) names {
	return names{namespace: namespace, prefix: fmt.Sprintf("%s:%d:", namespace, kvindex.KeyVersion)}
}

// backends is a sorted set of all backends of all pools, by when a router last had them.
func (n names) backends() string { return n.prefix + "backends" }

// set is the sorted set of a backend's blocks in one shard: members are block keys,
// scores their last use.
func (n names) set(pool, label string, shard int) string {
	return fmt.Sprintf("%s{%s/%x}:%s", n.prefix, pool, shard, label)
}

// sets are all sets of a backend.
func (n names) sets(p place) [shards]string { return n.listedSets(p.listed()) }

// listedSets are all sets of a backend that the set of all backends names.
func (n names) listedSets(listed string) (all [shards]string) {
	pool, label, _ := strings.Cut(listed, " ")
	for shard := range all {
		all[shard] = n.set(pool, label, shard)
	}
	return all
}

func (n names) ofPool(pool, what string) string {
	return n.prefix + "{" + escaped.Replace(pool) + "}:" + what
}

// stream is what routers tell each other of a pool.
func (n names) stream(pool string) string { return n.ofPool(pool, "stream") }

// horizons is a sorted set of a pool's backends by their horizon.
func (n names) horizons(pool string) string { return n.ofPool(pool, "horizons") }

// trimmed is a sorted set of a pool's backends by the last use up to which their sets have
// been trimmed: what is as old or older may lack its parent.
func (n names) trimmed(pool string) string { return n.ofPool(pool, "trimmed") }

// pins is a sorted set of what belongs to backends of a pool, by its last use.
func (n names) pins(pool string) string { return n.ofPool(pool, "pins") }

// epoch holds a random value that is gone when Redis was emptied.
func (n names) epoch(pool string) string { return n.ofPool(pool, "epoch") }

// settings is a sorted set of what operators have set in a pool, by when. It has no version
// of block keys in its name: what was set holds for routers of all versions.
func (n names) settings(pool string) string {
	return n.namespace + ":settings:{" + escaped.Replace(pool) + "}"
}

// lead holds the router that does what one of all should do. As with settings, versions of block
// keys do not matter.
func (n names) lead() string { return n.namespace + ":lead" }

// member is a block's name in its set: the key in eight bytes.
func member(key kvindex.Key) string {
	return string([]byte{
		byte(key >> 56), byte(key >> 48), byte(key >> 40), byte(key >> 32),
		byte(key >> 24), byte(key >> 16), byte(key >> 8), byte(key),
	})
}

// parseMember returns the block that a member of a set names; ok is false where it is
// none of ours.
func parseMember(m string) (key kvindex.Key, ok bool) {
	if len(m) != 8 {
		return 0, false
	}
	for i := range len(m) {
		key = key<<8 | kvindex.Key(m[i])
	}
	return key, true
}
