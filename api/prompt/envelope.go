package prompt

// envelope holds the top-level values that do not need the document, as they stand in
// the body: whatever is scalar, and the prompts of completions. Where a key stands
// twice the last one counts, and keys are matched letter by letter, as the engines do.
type envelope struct {
	model, stream, streamOptions       []byte
	n, bestOf                          []byte
	salt, cacheKey, previous           []byte
	echo, logprobs, promptLogprobs     []byte
	beam, embeds, truncate, truncation []byte
	prompt, inputs, tokenIDs, inputIDs []byte
	addSpecial                         []byte
	messages, input                    bool // for shape
}

// read walks the whole body and picks the values.
func (e *envelope) read(s *scanner) bool {
	var buf [4 * longestKey]byte
	return s.envelope(func(raw []byte, start, end int) {
		if key, ok := plainKey(raw, buf[:0]); ok {
			e.pick(key, s.body[start:end])
		}
	}) >= 0
}

func (e *envelope) pick(key, value []byte) {
	switch string(key) {
	case "model":
		e.model = value
	case "stream":
		e.stream = value
	case "stream_options":
		e.streamOptions = value
	case "n":
		e.n = value
	case "best_of":
		e.bestOf = value
	case "cache_salt":
		e.salt = value
	case "prompt_cache_key":
		e.cacheKey = value
	case "previous_response_id":
		e.previous = value
	case "echo":
		e.echo = value
	case "logprobs":
		e.logprobs = value
	case "prompt_logprobs":
		e.promptLogprobs = value
	case "use_beam_search":
		e.beam = value
	case "prompt_embeds":
		e.embeds = value
	case "truncate_prompt_tokens":
		e.truncate = value
	case "truncation":
		e.truncation = value
	case "add_special_tokens":
		e.addSpecial = value
	case "prompt":
		e.prompt = value
	case "inputs":
		e.inputs = value
	case "token_ids":
		e.tokenIDs = value
	case "input_ids":
		e.inputIDs = value
	case "messages":
		e.messages = true
	case "input":
		e.input = true
	}
}

// source returns the prompt of a completion: prompt, or what native bodies have in
// its place.
func (e *envelope) source() []byte {
	for _, raw := range [...][]byte{e.prompt, e.inputs, e.tokenIDs, e.inputIDs} {
		if !null(raw) {
			return raw
		}
	}
	return nil
}

// usageAsked reads stream_options.include_usage.
func (e *envelope) usageAsked() UsageAsk {
	if len(e.streamOptions) == 0 || e.streamOptions[0] != '{' {
		return UsageUnset
	}
	var value []byte
	s := newScanner(e.streamOptions, unlimited)
	s.object(0, 1, func(raw []byte, start, end int) {
		if keyIs(raw, "include_usage") {
			value = s.body[start:end]
		}
	})
	switch {
	case null(value):
		return UsageUnset
	case truth(value):
		return UsageYes
	}
	return UsageNo
}

// noEvidence reports whether an option makes the engine report cached tokens that
// say nothing about its cache. A prompt whose
// logprobs are computed reads nothing from the cache, and of several answers or
// prompts the engine reports one.
func (e *envelope) noEvidence() bool {
	return given(e.promptLogprobs) ||
		truth(e.echo) && given(e.logprobs) ||
		truth(e.beam) ||
		!null(e.embeds) ||
		!null(e.truncate) ||
		isText(e.truncation) && !keyIs(quoted(e.truncation), "disabled") ||
		isText(e.previous) && len(e.previous) > len(`""`)
}
