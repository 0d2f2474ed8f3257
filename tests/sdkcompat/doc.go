// Package sdkcompat proves with the official OpenAI client that a client notices nothing of the router: the real
// binaries run as processes, two engine doubles behind one router, and the client talks to the router alone.
//
// It is a module of its own so that the client and its dependencies stay out of the product's go.mod.
package sdkcompat
