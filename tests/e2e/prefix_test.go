package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/router"
)

// blockBytes is how many bytes of prompt a block of the index stands for.
const blockBytes = 256

// completion sends a text completion, which must go well, and returns its decision.
func (f *fleet) completion(prompt, pin string) decision {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "max_tokens": 1})
	if err != nil {
		f.t.Fatal(err)
	}
	header := http.Header{"X-Request-Id": {fmt.Sprintf("request-%d", requests.Add(1))}}
	if pin != "" {
		header.Set("X-Warmroute-Backend", pin)
	}
	status, answer, err := f.send(f.t.Context(), http.MethodPost, f.url+"/v1/completions", string(body), header)
	if err != nil || status != http.StatusOK {
		f.t.Fatalf("completion: %d %s, %v", status, answer, err)
	}
	return f.decided(header.Get("X-Request-Id"))
}

// HA-01: what counts is the chain from the start. Who holds only the tail of a
// prompt holds nothing of it.
func TestHA01MatchFromTheStart(t *testing.T) {
	f := start(t, setup{engines: 2})
	x, y := prose(1, 6000), prose(2, 4000)
	f.completion(x, f.ids[0])
	f.completion(y, f.ids[1])
	d := f.completion(y+x, "")
	if d.Backend != f.ids[1] || d.Reason != router.LongestMatch.String() {
		t.Errorf("%+v: want the holder of the first blocks, %s", d, f.ids[1])
	}
	if most := (len(y) + blockBytes) / blockBytes; d.MatchedBlocks > most || d.MatchedBlocks < most-2 {
		t.Errorf("%d blocks matched, want those of the first %d bytes, about %d", d.MatchedBlocks, len(y), most)
	}
	if d.Cached == nil || *d.Cached < len(y)/8 {
		t.Errorf("%+v: the engine found none of it cached", d)
	}
}

// RB-02: a conversation has its backend as soon as there is enough of it to match,
// also when it grew out of requests that were placed by load.
func TestRB02ConversationBecomesSticky(t *testing.T) {
	f := start(t, setup{engines: 3})
	var talk []message
	home := ""
	for turn := range 8 {
		talk = append(talk, user(prose(uint64(turn), 150)))
		r := f.mustChat(ask{messages: talk, tokens: 10})
		talk = append(talk, message{"assistant", r.text})
		d := f.decided(r.id)
		switch {
		case turn == 0 && d.Reason != router.NoPrefix.String():
			t.Errorf("the first turn has %d blocks and went by %s, want no prefix", d.PromptBlocks, d.Reason)
		case home == "" && d.PromptBlocks >= 2:
			home = r.backend
		case home != "" && r.backend != home:
			t.Errorf("turn %d with %d blocks went to %s (%s), the turn before to %s", turn+1, d.PromptBlocks, r.backend, r.reason, home)
		}
	}
	if home == "" {
		t.Error("the conversation never grew beyond the minimum")
	}
}

// UF-19: the next turn holds the answer of the one before. It goes to the same
// backend, which has both cached.
func TestUF19AnswersAreCachedToo(t *testing.T) {
	f := start(t, setup{engines: 4})
	for i := range 8 {
		p := user(prose(uint64(i), 5000))
		first := f.mustChat(ask{messages: []message{p}, tokens: 60})
		second := f.mustChat(ask{
			messages: []message{p, {"assistant", first.text}, user("And then?")},
		})
		if second.backend != first.backend {
			t.Errorf("turn 2 went to %s (%s), turn 1 to %s", second.backend, second.reason, first.backend)
		}
		if before, d := f.decided(first.id), f.decided(second.id); d.MatchedBlocks < before.PromptBlocks {
			t.Errorf("turn 2 matches %d blocks, turn 1 had %d", d.MatchedBlocks, before.PromptBlocks)
		}
		if second.cached < first.prompt+32 {
			t.Errorf("%d tokens of turn 2 were cached, want the %d of turn 1 and most of its answer", second.cached, first.prompt)
		}
	}
}

// A prompt that differs in JSON cosmetics only is the same prompt to the engine, and
// to the router.
func TestCosmeticsDoNotMatter(t *testing.T) {
	f := start(t, setup{engines: 4})
	text := prose(1, 4000)
	first := f.mustChat(ask{messages: []message{user(text)}})
	body := fmt.Sprintf(`{ "max_tokens":1, "temperature": 0.3, "messages" : [ {"content": [{"text": %q, "type": "text"}], "role":"user"} ], "model":%q}`,
		text, model)
	body = strings.Replace(body, "Report", `\u0052eport`, 1)
	header := http.Header{"X-Request-Id": {"cosmetics"}}
	status, answer, err := f.send(t.Context(), http.MethodPost, f.url+"/v1/chat/completions", body, header)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	if d := f.decided("cosmetics"); d.Backend != first.backend || d.MatchedBlocks != d.PromptBlocks || d.PromptBlocks == 0 {
		t.Errorf("%+v: want all blocks on %s", d, first.backend)
	}
}
