package feedback

// Account is where a prompt's tokens went: delivered from the cache, or lost, and to
// what. All counts are tokens. Delivered and the five losses add up to Prompt.
type Account struct {
	// Prompt is the prompt's length, Available the best match on any eligible backend,
	// Captured the match on the chosen one, Predicted what was expected of it.
	Prompt, Available, Captured, Predicted int
	// Delivered is what the engine found in its cache; 0 where it did not say, and then
	// Reported is false.
	Delivered int
	Reported  bool
	// NoReuse: no eligible backend was thought to hold it. Overflow and LoadChoice:
	// another backend held more and was full, or was passed over for its load.
	// StaleIndex: the index was wrong. Unreported: the engine did not say.
	NoReuse, Overflow, LoadChoice, StaleIndex, Unreported int
}

// Settle explains one answered prompt. prompt, available, captured and predicted are
// tokens; cached is what the engine reported, reported whether it did; overflow says
// that a better backend was full.
func Settle(prompt, available, captured, predicted, cached int, reported, overflow bool) Account {
	a := Account{Prompt: prompt, Available: min(available, prompt), Captured: min(captured, prompt), Predicted: min(predicted, prompt), Reported: reported}
	passedOver := max(a.Available-a.Captured, 0)
	left := prompt
	take := func(tokens int) int {
		tokens = max(min(tokens, left), 0)
		left -= tokens
		return tokens
	}
	if reported {
		a.Delivered = take(cached)
		a.StaleIndex = take(a.Captured - a.Delivered)
	} else {
		a.Unreported = take(a.Captured)
	}
	if overflow {
		a.Overflow = take(passedOver)
	} else {
		a.LoadChoice = take(passedOver)
	}
	a.NoReuse = left
	return a
}

// Add adds another account to a, of which Reported then says nothing.
func (a *Account) Add(b Account) {
	a.Prompt += b.Prompt
	a.Available += b.Available
	a.Captured += b.Captured
	a.Predicted += b.Predicted
	a.Delivered += b.Delivered
	a.NoReuse += b.NoReuse
	a.Overflow += b.Overflow
	a.LoadChoice += b.LoadChoice
	a.StaleIndex += b.StaleIndex
	a.Unreported += b.Unreported
}
