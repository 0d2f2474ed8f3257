// Package tuning is automatic mode: it has advice applied by itself, one bounded step at a time,
// and takes back what did no good.
//
// A [Tuner] looks after one pool. It is told of every request that ends ([Tuner.Add]) and asked
// what to do every now and then ([Tuner.Look]); whoever asks it makes the advice and sets what it
// says. The package is pure: no network, no disk, no clock.
//
// # The rules
//
// Time is counted in parts, each a seventh of [Rules.Observation], or longer where fewer than
// [minAnswers] answers say how many tokens were cached; while a step is watched, requests that go
// unserved say as much.
//
// A step moves one setting towards what is advised of it, by a factor of [stepFactor] at most.
// What is delivered before it, over five parts, is compared with what is delivered after it, the
// part right after it left out, in which caches move. The step is taken back once the hit rate is
// more than 2 points lower, the P90 of the time to first token a quarter and 20 ms longer, or a
// hundredth more of the requests go unserved: as soon as that is certain, and at the end of the
// observation in any case. So no step costs more than that for longer than one observation, or for
// as long as it takes until six times [minAnswers] answers have come.
// Otherwise it is kept, and the next one follows.
//
// A step that was kept and had not itself raised the hit rate by as much is taken back, together
// with the steps before it that went the same way, when the hit rate falls by 2 points later: the
// traffic is another one now. So they are when it stays down after the step that came next was taken
// back. That is watched in the same way, and undone where it makes things
// worse still.
//
// What was taken back is not tried again for four observations, then for eight, sixteen, ...: no
// step of the same setting goes the same way; one that goes the other way may.
// Somebody who changes how the pool is routed is right: the tuner waits for four
// observations, and follows no advice from before.
package tuning
