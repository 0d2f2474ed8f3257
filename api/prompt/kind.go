package prompt

// Kind is the shape of a request body.
type Kind uint8

// The kinds of body.
const (
	// Chat is an OpenAI chat completion: messages. Of a list of conversations the
	// first decides.
	Chat Kind = iota
	// Completions is a text completion: prompt as text, as token ids, or as a list
	// of either, of which the first decides. The native inputs, token_ids and
	// input_ids stand in for a prompt that is absent.
	Completions
	// Responses is an OpenAI response: instructions and input.
	Responses
	// Messages is an Anthropic message: system and messages.
	Messages
	// Embeddings is a list of inputs that leave no prefix behind: embeddings,
	// rerank, score, pooling, tokenize. Only the model is read; it has no keys and
	// counts as one answer however many inputs there are.
	Embeddings
	// Opaque is a body that is not read at all, such as a multipart form. It has no
	// keys.
	Opaque
	// Raw is a native body whose leading bytes are its key stream, as they are. A
	// PrefixLength counts bytes. The model and the options are read if it is a JSON
	// object, and nothing is refused if it is not.
	Raw
)

var kindNames = [...]string{"chat", "completions", "responses", "messages", "embeddings", "opaque", "raw"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// shape is the kind of a native body by its top-level keys: messages is [Chat]; prompt,
// inputs, token_ids or input_ids is [Completions]; input is [Responses]; anything else is
// [Raw].
func (e *envelope) shape() Kind {
	switch {
	case e.messages:
		return Chat
	case e.source() != nil:
		return Completions
	case e.input:
		return Responses
	}
	return Raw
}
