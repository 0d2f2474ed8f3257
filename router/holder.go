package router

import "strings"

// holderName is what the index knows a pool's backend by. Pools are separate in the index
// even where they share an engine: their scopes differ, and so do the blocks. A backend
// that moves to another URL is another one, whatever its id.
func holderName(pool, id, url string) string { return pool + " " + id + " " + url }

// SplitHolderName returns the pool, the backend's id and its URL from the name by which a
// router adds a backend to its index. Of any other text the whole is the id.
func SplitHolderName(name string) (pool, id, url string) {
	pool, rest, found := strings.Cut(name, " ")
	end := strings.LastIndexByte(rest, ' ')
	if !found || end < 0 {
		return "", name, ""
	}
	return pool, rest[:end], rest[end+1:]
}
