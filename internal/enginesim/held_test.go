package enginesim

import "testing"

func TestHeld(t *testing.T) {
	for _, off := range []bool{false, true} {
		e, err := New(Config{Profile: profiles["llama-8b-h100"], DisablePrefixCaching: off})
		if err != nil {
			t.Fatal(err)
		}
		ids := []BlockID{1, 2, 3}
		if _, err := e.Submit(0, Request{PromptTokens: 40, OutputTokens: 1, Blocks: ids[:2]}); err != nil {
			t.Fatal(err)
		}
		drain(e)
		before := e.Counters()
		want := 2
		if off {
			want = 0
		}
		if got := e.Held(ids); got != want {
			t.Errorf("caching off %v: %d blocks held, want %d", off, got, want)
		}
		if e.Counters() != before {
			t.Error("looking changed the counters")
		}
		e.LoseCache()
		if got := e.Held(ids); got != 0 {
			t.Errorf("%d blocks held after the loss", got)
		}
	}
}
