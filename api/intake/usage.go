package intake

import "github.com/warmroute/warmroute/api/prompt"

// AsksUsage reports whether the engine is to be asked for usage on its client's behalf
// ([prompt.SetIncludeUsage]): the answer is a stream of a kind that reports usage only when
// it is asked to, and the request does not say.
func AsksUsage(p *prompt.Request, streamed bool) bool {
	return streamed && Generates(p) && p.UsageAsked() == prompt.UsageUnset
}

// Generates reports whether a body asks for text in a shape whose options are known.
func Generates(p *prompt.Request) bool {
	shape := p.Shape()
	return shape == prompt.Chat || shape == prompt.Completions
}
