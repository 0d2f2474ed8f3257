// Package health asks every engine what it serves and keeps the backends' model
// lists up to date.
//
// A [Poller] reads /v1/models of each base URL at once and then at an interval, each
// at its own pace. Data-parallel ranks share a URL: it is asked once and the answer
// holds for all of them. An engine that cannot be asked keeps the list it gave last;
// that it failed, and that it answers again, is told once each.
package health
