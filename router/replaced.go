package router

import (
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/kvindex"
)

// Replaced takes in that another engine has the URL of a backend since now. The backend is a
// new one already, of which this router knows nothing; but what other routers have shared of
// the engine before must not be believed of this one, here or there.
func (r *Router) Replaced(p *Pool, b *backends.Backend, now time.Time) {
	if m := p.memberOf(b); m != nil {
		at := kvindex.Stamp(now.UnixNano())
		r.raise(p, m, causeRestart, at, at, at)
	}
}
