// Package prompt reads a request body once and turns it into everything routing
// needs: the model, how many answers are asked for, whether they stream, what
// separates or steers the prompt's affinity, and the prompt key stream with its
// block keys.
//
// It owns the bodies of requests: what the dialects' fields mean, the order in
// which an engine renders them, and the edits of a forwarded body ([SetModel],
// [SetStream], [SetIncludeUsage]), which splice bytes and re-encode nothing. It is
// the only package that parses request bodies. It imports kvindex and nothing
// else of this module, and does no I/O.
//
// The engine is the judge of a request. Only a body that is not a JSON object, or
// whose model is not a string, is refused here; every odd or unknown content
// passes and enters the stream as it is.
//
//	r, err := prompt.Parse(prompt.Chat, body)
//	if err != nil {
//		return err // *prompt.Error: a 400 in the caller's dialect
//	}
//	defer r.Release()
//	keys := r.Hash(scope, kvindex.Unlimited, r.CacheKey())
//	r.Trim() // the keys stay, the memory that they took to compute does not
//
// # What enters the stream
//
// The head: chat_template, chat_template_kwargs, documents, the reasoning effort,
// the processor and truncation options, and the tools. Then the system text, then
// the messages with their role, name, reasoning, parts, calls and results, then
// what changes the end of the prompt. The order is always this one, whatever the
// order of the JSON keys. Values that templates print as given, such as the
// parameters of a tool, keep their own key order and the spelling of their
// numbers; white space and escapes never count.
//
// # Limits
//
// A body nested deeper than [MaxDepth] levels, or with more than [MaxValues] JSON
// values, is refused: what is noted of a value takes six times the memory of the
// shortest one. [ParseWithin] bounds what many bodies take together. Of completions and
// input lists nothing is noted: prompts of token ids have no limit other than the size of
// the body.
package prompt
