package feedback

// Considered is one backend that took part in a decision, as the decision saw it.
type Considered struct {
	// Backend is its id. Chosen says that it was taken.
	Backend string
	Chosen  bool
	// MatchedBlocks are the prompt's leading blocks that it was thought to hold,
	// MatchedTokens the same in tokens, and PredictedCached what its engine was expected
	// to report of them.
	MatchedBlocks, MatchedTokens, PredictedCached int
	// Queued is the tokens that it had still to prefill, InFlight and Limit its load
	// without this request, and its threshold. Full says that it was at that, or far above
	// the mean.
	Queued, InFlight, Limit int
	Full                    bool
	// Cost is what the request would have waited for and taken there, in tokens of
	// prefill.
	Cost float64
}
