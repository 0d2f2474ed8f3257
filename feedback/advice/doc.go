// Package advice answers what an operator of prefix routing asks: what should
// prefix_length and concurrency_threshold be for this traffic, and what would it change?
//
// It plays the requests that ended last, as they came, through the router's own code to
// modelled engines in virtual time (internal/replay), which are as fast and as large as the
// pool's have shown themselves to be ([Of]), once for each value of a setting. What comes of it
// are curves ([Curve]) of the hit rate, the time to first token, overflow and skew, a value, what
// it is expected to change, with an interval, and what would make that wrong.
//
//	window := advice.Recent(store, pool.Name())
//	a, err := advice.Give(ctx, advice.Of(pool, now), window, advice.Options{})
//
// # What is replayed
//
// The newest requests without a gap, as many as [Options.Work] allows, of those that are
// remembered or logged: thinning them out would break both the hit rate and queueing. The first
// fifth of the time warms the caches and does not count.
//
// # What is advised
//
// Values with a P90 of more than 1.5 times the lowest, or with which more requests go without an
// answer, are out of the question, whatever they hit. Of the others, of prefix_length the smallest
// that costs no more than half a point of the best hit rate and 2.5 % of the best P90, and surely
// no more than twice that: for the longest match the curve only rises. Of concurrency_threshold, the value of the lowest P90 among
// those that cost no more than half a point. So both together cost no more than a point and a
// twentieth. Where the present value does as well, it stays; where the interval leaves it open
// whether another one is better, too. Each is looked for with the other as advised, until neither
// moves, beginning with either.
//
// Intervals are 90 % of a block bootstrap: the time that counts is cut into [parts] equal parts,
// which are drawn anew, the same for both of what is compared. They say how much the figure
// depends on which minutes of traffic were seen, and nothing of what the model leaves out.
//
// Equal windows, pools and seeds give equal advice on machines of one architecture. The package
// is pure: no network, no disk, no clock.
package advice
