// Package server puts engine models of package enginesim behind the HTTP
// surface of a vLLM server: chat, completions, responses, messages, embeddings,
// metrics, health, and a few routes of its own under /sim/ that inject faults
// and show what the caches truly hold.
//
// It owns the rendering of requests into tokens, the wire shapes, and the loop
// that lets model time follow the wall clock, scaled by [Config.Speed]. Only
// timers of package time are used, so a server works inside a testing/synctest
// bubble.
//
//	srv, err := server.New(server.DefaultConfig())
//	go srv.Run(ctx)
//	http.Serve(listener, srv)
//
// Requests are answered only while [Server.Run] runs. The package must not
// import any routing package: it is the far side of the wire.
package server
