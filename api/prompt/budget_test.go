package prompt_test

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

// The budget of the request path: nothing is allocated once the pool is warm.
func TestParseHashAllocations(t *testing.T) {
	ids := `{"model":"m","prompt":[` + strings.Repeat("12345,", 8191) + `1]}`
	for _, c := range []struct {
		kind prompt.Kind
		body []byte
	}{
		{prompt.Chat, chatBody(t, 32<<10, prose)},
		{prompt.Chat, chatBody(t, 32<<10, dense)},
		{prompt.Responses, []byte(`{"model":"m","cache_salt":"s","prompt_cache_key":"k","instructions":"` + long("i", 900) + `","input":"` + long("q", 30000) + `"}`)},
		{prompt.Messages, []byte(`{"model":"m","system":"` + long("i", 900) + `","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + long("q", 30000) + `"}]}],"tools":[{"name":"f","input_schema":{"a":[1,"\""]}}]}`)},
		{prompt.Completions, []byte(ids)},
		{prompt.Completions, []byte(`{"model":"m","prompt":"` + strings.Repeat(`a\n`, 10000) + `"}`)},
		{prompt.Raw, []byte(ids)},
		{prompt.Embeddings, []byte(ids)},
	} {
		got := testing.AllocsPerRun(100, func() {
			r, err := prompt.Parse(c.kind, c.body)
			if err != nil {
				t.Fatal(err)
			}
			r.Hash(scope, kvindex.Unlimited, "hint")
			r.Trim()
			r.Release()
		})
		if got != 0 && !raceEnabled {
			t.Errorf("%v: %v allocations, want 0", c.kind, got)
		}
	}
}
