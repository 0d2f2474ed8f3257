package enginesim

// Held returns how many of the leading ids the prefix cache holds now. It is for those
// who look at the model from outside: it counts no lookup and moves nothing in the order
// of eviction.
func (e *Engine) Held(ids []BlockID) int {
	if e.cfg.DisablePrefixCaching {
		return 0
	}
	hits, _ := e.cache.lookup(ids, len(ids))
	return hits
}
