package intake

import (
	"net/http"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/router"
)

// PromptTokens is how many tokens the prompt of a question is thought to have.
func PromptTokens(ask *router.Request) int {
	return feedback.NewPredictor(ask.Pool.BytesPerToken(), 0).Tokens(ask.StreamBytes)
}

// UsedTokens is how many tokens a request has used that is over, of which estimate was thought
// before: what its engine reported of prompt and answer, what was thought where an engine worked
// on it and reported nothing, and none where no engine did.
func UsedTokens(r *feedback.Record, estimate int) int {
	u := r.Usage
	switch {
	case u.HasPrompt:
		return u.Prompt + u.Completion
	case u.HasCompletion:
		return estimate + u.Completion
	case r.Attempts == 0, r.Status >= http.StatusBadRequest && r.Status != StatusClientClosed && r.TTFT == 0:
		return 0
	}
	return estimate
}
