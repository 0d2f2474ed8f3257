package server

// usage is the token count of the OpenAI dialects in an answer that is not
// streamed, where absent details are null.
type usage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *promptDetails `json:"prompt_tokens_details"`
}

// streamUsage is the same in a chunk, where absent details are left out.
type streamUsage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *promptDetails `json:"prompt_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// details returns what the configured flags make of a number of cached tokens.
func (s *Server) details(cached int) *promptDetails {
	if !s.cfg.PromptTokensDetails || (cached == 0 && s.cfg.NullForZero) {
		return nil
	}
	return &promptDetails{CachedTokens: cached}
}

func (s *Server) usage(prompt, completion, cached int) usage {
	return usage{
		PromptTokens:     prompt,
		TotalTokens:      prompt + completion,
		CompletionTokens: completion,
		Details:          s.details(cached),
	}
}

// runningUsage is the usage of an ordinary chunk: counts without details.
func runningUsage(prompt, completion int) *streamUsage {
	return &streamUsage{PromptTokens: prompt, TotalTokens: prompt + completion, CompletionTokens: completion}
}

// finalUsage is the usage of the last chunk of a stream.
func (s *Server) finalUsage(prompt, completion, cached int) *streamUsage {
	u := runningUsage(prompt, completion)
	u.Details = s.details(cached)
	return u
}

// anthropicUsage is the token count of /v1/messages. The cache fields are there
// only when cached tokens are reported, and input_tokens is then without them.
type anthropicUsage struct {
	InputTokens   int  `json:"input_tokens"`
	OutputTokens  int  `json:"output_tokens"`
	CacheCreation *int `json:"cache_creation_input_tokens,omitempty"`
	CacheRead     *int `json:"cache_read_input_tokens,omitempty"`
}

func (s *Server) anthropicUsage(prompt, completion, cached int) anthropicUsage {
	u := anthropicUsage{InputTokens: prompt, OutputTokens: completion}
	if d := s.details(cached); d != nil {
		u.InputTokens -= d.CachedTokens
		u.CacheCreation = new(int)
		u.CacheRead = &d.CachedTokens
	}
	return u
}

// responsesUsage is the token count of /v1/responses, which reports cached
// tokens whatever the flag says.
type responsesUsage struct {
	InputTokens        int                   `json:"input_tokens"`
	InputTokensDetails responsesInputDetails `json:"input_tokens_details"`
	OutputTokens       int                   `json:"output_tokens"`
	OutputDetails      responsesOutDetails   `json:"output_tokens_details"`
	TotalTokens        int                   `json:"total_tokens"`
}

type responsesInputDetails struct {
	CachedTokens        int   `json:"cached_tokens"`
	InputTokensPerTurn  []int `json:"input_tokens_per_turn"`
	CachedTokensPerTurn []int `json:"cached_tokens_per_turn"`
}

type responsesOutDetails struct {
	ReasoningTokens     int   `json:"reasoning_tokens"`
	ToolOutputTokens    int   `json:"tool_output_tokens"`
	OutputTokensPerTurn []int `json:"output_tokens_per_turn"`
}

func newResponsesUsage(prompt, completion, cached int) *responsesUsage {
	return &responsesUsage{
		InputTokens: prompt,
		InputTokensDetails: responsesInputDetails{
			CachedTokens:        cached,
			InputTokensPerTurn:  []int{},
			CachedTokensPerTurn: []int{},
		},
		OutputTokens:  completion,
		OutputDetails: responsesOutDetails{OutputTokensPerTurn: []int{}},
		TotalTokens:   prompt + completion,
	}
}
