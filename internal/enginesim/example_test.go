package enginesim_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// Two requests with a common head on one engine, in virtual time: the second
// finds the head in the cache.
func Example() {
	profile, err := enginesim.ProfileByName("llama-8b-h100")
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := enginesim.New(enginesim.Config{Profile: profile})
	if err != nil {
		fmt.Println(err)
		return
	}
	manual := strings.Repeat("The manual is long, and every question comes with all of it. ", 500)
	for i, question := range []string{"What does it say first?", "What does it say last?"} {
		tokens := enginesim.Tokenize(nil, manual+question)
		_, err := engine.Submit(time.Duration(i)*time.Second, enginesim.Request{
			PromptTokens: len(tokens),
			OutputTokens: 20,
			Blocks:       enginesim.Chain(nil, enginesim.Root("llama-8b", ""), tokens, engine.BlockSize()),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		for at, ok := engine.NextStep(); ok; at, ok = engine.NextStep() {
			for _, event := range engine.Step(at) {
				if event.Kind == enginesim.EventFirstToken {
					p := event.Sequence.Progress()
					fmt.Printf("%d tokens, %d cached, first token after %d ms\n",
						p.PromptTokens, p.CachedTokens, (p.FirstToken - p.Arrived).Milliseconds())
				}
			}
		}
	}
	// Output:
	// 8006 tokens, 0 cached, first token after 311 ms
	// 8006 tokens, 8000 cached, first token after 22 ms
}
