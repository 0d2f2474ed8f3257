package feedback

// DefaultBytesPerToken converts bytes of key stream to tokens where nothing has
// been learned: English text and code in current vocabularies.
const DefaultBytesPerToken = 4.0

// DefaultEngineBlock is the engine's cache block in tokens where none has been
// stated: what vLLM resolves on most hardware.
const DefaultEngineBlock = 16

// Predictor turns blocks of key stream into the engine's units. It is immutable.
type Predictor struct {
	bytesPerToken float64
	engineBlock   int
}

// NewPredictor returns a predictor for streams of bytesPerToken bytes a token and
// engines with cache blocks of engineBlock tokens. Values that are not positive
// mean the defaults.
func NewPredictor(bytesPerToken float64, engineBlock int) Predictor {
	if !(bytesPerToken > 0) {
		bytesPerToken = DefaultBytesPerToken
	}
	if engineBlock <= 0 {
		engineBlock = DefaultEngineBlock
	}
	return Predictor{bytesPerToken: bytesPerToken, engineBlock: engineBlock}
}

// Tokens estimates how many tokens a number of bytes of key stream are.
func (p Predictor) Tokens(streamBytes int) int {
	return int(float64(streamBytes) / p.bytesPerToken)
}

// Cached predicts how many of a prompt's tokens the engine finds cached when the
// first matchedBytes bytes of its stream match: whole engine blocks, and never the
// last token, which an engine always computes, so at most ⌊(prompt−1)/bs⌋·bs.
func (p Predictor) Cached(matchedBytes, promptTokens int) int {
	cached := min(p.Tokens(matchedBytes), promptTokens-1)
	if cached <= 0 {
		return 0
	}
	return cached - cached%p.engineBlock
}
