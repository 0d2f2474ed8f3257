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

// UsedTokens is how many tokens a request has used that is over, of whose prompt estimate was
// thought before: what its engine reported of prompt and answer. Where it reported nothing but
// worked on it, that is what was thought, and one for each event of a stream, of which engines
// send one for each token or few; none where no engine worked.
func UsedTokens(r *feedback.Record, estimate int) int {
	u := r.Usage
	worked := r.Attempts > 0 && (r.Status < http.StatusBadRequest || r.Status == StatusClientClosed || r.TTFT > 0)
	if !u.HasPrompt && !u.HasCompletion && !worked {
		return 0
	}
	prompt, answer := estimate, r.Events
	if u.HasPrompt {
		prompt = u.Prompt
	}
	if u.HasCompletion {
		answer = u.Completion
	}
	return prompt + answer
}
