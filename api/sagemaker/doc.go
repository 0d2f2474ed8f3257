// Package sagemaker serves SageMaker's runtime API, so that clients written for it move to
// a fleet of one's own by changing the endpoint's URL:
//
//	POST /endpoints/{name}/invocations
//	POST /endpoints/{name}/invocations-response-stream
//	POST /endpoints/{name}/openai/v1/chat/completions
//	POST /endpoints/{name}/inference-components/{component}/openai/v1/chat/completions
//	POST /invocations
//
// The endpoint, the inference component and the variant choose a pool ([Variant]); its
// engines get what SageMaker gives a container, at /invocations. What comes back from
// /invocations-response-stream is wrapped in frames of AWS's event stream, one for each
// piece that the engine sent.
//
// # Errors
//
// Every error is JSON with its type in X-Amzn-ErrorType and in __type: AWS's clients lose
// the type of any other. An engine's refusal is a ModelError with what the engine said.
// Statuses are chosen by what the clients do with them: they send again what got 500, 502,
// 503 or 504, up to three times within a tenth of a second. So 503 is for requests that no
// engine has seen and another moment may serve; what is shed because all are busy is 429
// with ModelNotReadyException; and what an engine may have worked on is 424.
//
// # What breaks off
//
// AWS's client for Go takes a connection that is cut for the end of an event stream. A
// stream that breaks off therefore ends with an exception, ModelStreamError or
// InternalStreamFailure, and the connection in good order behind it.
package sagemaker
