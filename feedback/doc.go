// Package feedback holds what happened to a request and what that teaches:
// the usage an engine reported, the outcome of an attempt, the prediction of
// cached tokens it is compared with, and the prefill work that is still queued.
//
// The package is pure: no network, no disk, no clock. Reading usage off a response
// and scraping an engine are children.
package feedback
