// Package redisindex is the index that several routers have in common, through Redis.
//
// [Index] is a [kvindex.Memory], which alone decides every request, and what keeps it
// alike on all routers and across their restarts. What a router publishes goes into a
// bounded queue, and from there, some at a time, into Redis: into sorted sets, which a
// router that starts reads, and into one stream for each pool, which the others follow.
// The stream carries the horizons of backends and the load of each router as well.
//
// No method of [Index] waits for Redis. [Index.Run] owns everything that does; when Redis
// is gone, hangs, refuses or was emptied, requests go on as before, and Run finds back by
// itself. What is in Redis is a hint and never an authority: any of it may be missing,
// old, or of a wrong type.
//
// Moments that leave the process are in fleet time, the clock of the Redis server in
// microseconds, so that no router's wall clock is trusted.
//
//	x, err := redisindex.New(redisindex.Config{Addresses: []string{"redis:6379"}}, memory)
//	r := router.New(router.Options{Index: x})
//	x.Share(r)
//	err = x.Run(ctx)
package redisindex
