// Package sharing tests what holds between routers that share their index through one
// Redis, and prints the figures: how alike they are, how soon, what it costs Redis, and
// that no request notices when Redis is away.
//
// Tests start their own servers and are skipped where redis-server is missing. They are
// short; two variables make them longer:
//
//	WARMROUTE_OUTAGE=60s   how long each outage lasts
//	WARMROUTE_FULL=1       a million prompts instead of some ten thousand, real times to live,
//	                       and bounds that a machine meets that does nothing else
package sharing
