package feedback

// Usage is what an engine reported about one request, in tokens. Engines differ in
// what they report and in what they leave out, and absent is not 0: a count is
// valid only where its Has field says so.
type Usage struct {
	// Prompt is the number of prompt tokens, cached ones included.
	Prompt int
	// Completion is the number of generated tokens.
	Completion int
	// Cached is the number of prompt tokens the engine found in its cache, 0..Prompt.
	Cached int
	// HasPrompt, HasCompletion and HasCached say which counts were reported. A
	// cached count of null, or none, is not reported.
	HasPrompt, HasCompletion, HasCached bool
	// CachedNull is true when the details were there and said null, which on some
	// engine versions is how a complete miss is reported.
	CachedNull bool
	// Local is the part of Cached found in the engine's own cache rather than in an
	// external tier; HasLocal says whether it was reported.
	Local    int
	HasLocal bool
	// Nonsense is true when a reported count could not be true (negative, not a
	// number, more cached than prompt) and was clamped or ignored.
	Nonsense bool
}
