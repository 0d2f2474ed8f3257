package feedback

import "sync"

// Reporting is what is known of how one backend reports cached tokens on one route.
// Engines report numbers only with a flag, on some routes and not on others, and some
// versions say null for a complete miss; so a number counts only after the route has
// reported a positive one, and null counts as 0 only where misses are seen to come that
// way. It is safe for concurrent use; the zero value knows nothing.
type Reporting struct {
	mu       sync.Mutex
	answers  int  // to prompts of which something was thought to be cached
	positive bool // a number above 0 was reported
	zero     bool // a 0 was reported
	barren   int  // how often a 0 was, for a prompt of which something was thought to be cached
	null     bool // a prompt that nothing was known of came back without a number
}

// silentAfter is how many answers without a number make a route one that reports none.
const silentAfter = 20

// Read takes in one answer's usage and returns the cached tokens that it stands for; ok
// is false where nobody can know. cold says that nothing of the prompt was thought to
// be cached.
func (r *Reporting) Read(u Usage, cold bool) (cached int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !u.HasPrompt {
		return 0, false
	}
	if !cold {
		r.answers++
	}
	switch {
	case u.HasLocal:
		cached = u.Local
	case u.HasCached:
		cached = u.Cached
	default:
		if cold {
			r.null = true
		}
		return 0, r.positive && r.null && !r.zero
	}
	if cached > 0 {
		r.positive = true
	} else {
		r.zero = true
		if !cold {
			r.barren++
		}
	}
	return cached, r.positive
}

// Silent reports whether the route has answered prompts that should have hit and never
// reported a number: on
// vLLM, --enable-prompt-tokens-details is off.
func (r *Reporting) Silent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers >= silentAfter && !r.positive && !r.zero
}

// Barren reports whether the route has said 0 of many prompts that should have hit, and
// never anything else: prefix caching is off, or the model has none.
func (r *Reporting) Barren() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.barren >= silentAfter && !r.positive
}
