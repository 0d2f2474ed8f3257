package feedback

import (
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// Record is the access record of one request: everything that is logged and
// measured of it, and nothing of what was asked or answered. Every request has
// exactly one, whether or not it got as far as a decision.
type Record struct {
	// Start is when the request arrived; Duration is until its end, TTFT until the
	// first data event of the answer (0 when there was none).
	Start          time.Time
	Duration, TTFT time.Duration

	// RequestID is the client's X-Request-Id, or the one made for it.
	RequestID string
	// TraceID is taken from traceparent, empty when there was none.
	TraceID string
	// Method and Route are the HTTP method and the matched route pattern, never the
	// raw path; Dialect is whose error shape applies.
	Method, Route, Dialect string
	// Status is the status sent to the client, 499 when it left before.
	Status int
	Result Result
	// Err says what went wrong, empty when nothing did. It never holds text of a
	// prompt, a key or a token.
	Err string
	// Streamed says that the client asked for a stream.
	Streamed bool
	// RequestBytes and ResponseBytes are the sizes of the bodies as the client sent
	// and got them.
	RequestBytes, ResponseBytes int64

	// Pool and Model are names from the configuration or from what backends say they
	// serve; empty when the model is unknown. Strategy, Reason, Backend and
	// DecisionID are those of the last decision, empty when there was none; Why is
	// the reason in words.
	Pool, Model, Strategy, Reason, Backend, DecisionID, Why string
	// Overflow says that a better backend was full.
	Overflow bool
	// Attempts is how many backends were tried.
	Attempts int
	// InFlight is the backend's load at the decision, this request not included.
	InFlight int
	// Eligible is how many backends took part in the decision, and Considered the foremost
	// of them, the chosen one first; nil unless somebody watched decisions then. It is not
	// changed any more.
	Eligible   int
	Considered []Considered
	// PromptBlocks and MatchedBlocks are the blocks of the prompt, and those thought
	// to be on the backend. HasPrefix is false when the prompt was too short, or of
	// a kind that has none.
	PromptBlocks, MatchedBlocks int
	HasPrefix                   bool
	// PromptTokens, PredictedCached and AvailableCached are the estimates the
	// decision was made with, in tokens: of the prompt, of what the backend has
	// cached, and of what the best eligible backend has.
	PromptTokens, PredictedCached, AvailableCached int
	// Usage is what the engine reported.
	Usage Usage
	// Events is how many events of a stream came from its first token on.
	Events int

	// Keys are the block keys of the prompt, each of BlockBytes of its key stream of
	// StreamBytes; all three are zero where there was no prompt, or one that has no keys.
	// PrefixLength does not cut them: only the first PromptBlocks decided anything.
	// The keys may be read until the observer of the record returns.
	Keys                    []kvindex.Key
	BlockBytes, StreamBytes int
}
