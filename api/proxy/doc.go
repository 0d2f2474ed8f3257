// Package proxy carries a client's request to the backend that the router chooses
// and the answer back. There is one walk for every dialect:
//
//	read the body → resolve the model → hash the prompt
//	→ route → attempt ↺ → stream → complete → record
//
// A dialect describes its endpoints as [Call] values and says how its errors look
// ([Dialect]); everything else is here. It imports proxy, never the other way.
//
// # What is forwarded
//
// The body goes to the engine byte for byte, with exceptions that splice: an
// alias is replaced by the name the engines serve, and a stream whose client said
// nothing about usage is made to report it (Options.InjectUsage), in which case the
// chunk that the client did not ask for is taken out of the answer again; and where
// the path alone says that the answer is to be a stream, the body is made to say so.
// Headers go both ways without those that belong to one connection or are for the
// router: SageMaker's, but for custom attributes and inference ids. Answers are flushed with
// every read, their trailers included at the end. Nothing is compressed, and engines
// are asked not to compress.
//
// # What is tried again
//
// At most three backends are tried, and only where no engine can have done the work
// or the engine said that it did not: no connection, no TLS, a kept connection that
// had been closed (once per backend), and 429, 503 and 529 before their body. Retries are at
// most 20 % of the requests of the last ten seconds, with a floor. Where nobody else
// can take the request, the last answer of an engine reaches the client as it was.
//
// # What a client may not do
//
// Bodies are bounded, each and together (limits.body_bytes,
// limits.bodies_in_flight_bytes), after decompression too; a body counts as far as it
// has arrived, until its answer has ended. A client that pauses for a minute while it
// sends its body, or takes more than a minute and a second for each 16 KiB, gets a
// 408, and one that takes nothing of an answer that waits for it for five minutes
// has left. Credentials go on to the engines only with Options.ForwardCredentials;
// signatures of AWS (X-Amz-…, AWS4-…) are for this router alone and never do.
//
// # How an answer that breaks off ends
//
// The client always sees that it broke off. An event stream gets one event that
// says so in its dialect, if it stands between two events, and then its connection
// is ended abnormally, as that of every other answer. In a stream of frames
// ([Framing]) a frame says so, and the connection ends in good order behind it. A pause longer than
// timeouts.idle is a break like any other. A stream that ends in good order but
// without the event that ends its dialect's streams is passed on as it is, and
// recorded as upstream_aborted. Answers that the server cuts because it stops
// ([ErrStopping]) end in the same way, and are recorded as router_error.
//
// # What is recorded
//
// Every request gets one [feedback.Record], whatever becomes of it, after its last
// byte and after its slot was released.
package proxy
