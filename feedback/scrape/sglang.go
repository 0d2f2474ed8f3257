package scrape

// Names of SGLang's series.
const (
	sglangRunning  = "num_running_reqs"
	sglangWaiting  = "num_queue_reqs"
	sglangUsage    = "token_usage"
	sglangPrompt   = "prompt_tokens"
	sglangCached   = "cached_tokens"
	sglangCapacity = "max_total_num_tokens"
)

func sglang() *dialect {
	return &dialect{
		engine: "sglang",
		prefix: "sglang:",
		names:  []string{sglangRunning, sglangWaiting, sglangUsage, sglangPrompt, sglangCached, sglangCapacity},
		rank:   "dp_rank",
		copies: []string{"tp_rank", "pp_rank", "moe_ep_rank"},
		fill:   fillSGLang,
	}
}

func fillSGLang(v view, s *state) {
	s.requests(v, sglangRunning, &s.Running, &s.HasRunning)
	s.requests(v, sglangWaiting, &s.Waiting, &s.HasWaiting)
	s.usage(v, sglangUsage)
	s.PromptTokens, s.HasPromptTokens = v.sum(sglangPrompt, nil)
	if capacity, ok := v.largest(sglangCapacity, true); ok {
		s.CapacityTokens = int(capacity)
	}
	// What came from a store that engines share says nothing about this engine.
	hits, ok := v.sum(sglangCached, labelled("cache_source", "device", "host", ""))
	if ok && s.HasPromptTokens {
		s.lookups(s.PromptTokens, hits)
	}
}
