package sagemaker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

const adapterHeader = "X-Amzn-SageMaker-Adapter-Identifier"

// TestAdapters: the adapter of the header takes the place of the model, in the body where its
// shape is known; requests for one stay together, and share no prefix with the base model or
// with another.
func TestAdapters(t *testing.T) {
	engines := []*engine{newEngine(t, nil), newEngine(t, nil), newEngine(t, nil), newEngine(t, nil)}
	var urls []string
	for _, e := range engines {
		urls = append(urls, e.url)
	}
	f := start(t, urls)
	for _, b := range f.router.Pools()[0].Backends() {
		b.SetModels([]backends.Model{{ID: model}, {ID: "sql", Adapter: true}, {ID: "law", Adapter: true}})
	}
	text := strings.Repeat("the same long prompt ", 300)
	chat := `{"messages":[{"role":"user","content":"` + text + `"}]}`
	homes := make(map[string]string)
	n := 0
	send := func(path, body, adapter string) answer {
		t.Helper()
		n++
		a := f.send(path, body, adapterHeader, adapter)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s for %s: %d %s", path, adapter, a.StatusCode, a.body)
		}
		return a
	}
	for _, adapter := range []string{"sql", "law"} {
		first := send(invoke, chat, adapter)
		homes[adapter] = first.Header.Get("X-Warmroute-Backend")
		if got := first.Header.Get("X-Warmroute-Reason"); got != router.AdapterPlaced.String() {
			t.Errorf("the first request for %s: %s; it must find nothing of another's", adapter, got)
		}
		for range 3 {
			if a := send(invoke, chat, adapter); a.Header.Get("X-Warmroute-Backend") != homes[adapter] {
				t.Errorf("%s went to %s, before to %s", adapter, a.Header.Get("X-Warmroute-Backend"), homes[adapter])
			}
		}
	}
	bodies := map[string]int{}
	for _, e := range engines {
		for _, s := range e.seen {
			if got := s.header.Get(adapterHeader); got == "" {
				t.Error("an engine is not told of the adapter")
			}
			bodies[s.body[len(s.body)-16:]]++
		}
	}
	if bodies[`],"model":"sql"}`] != 4 || bodies[`],"model":"law"}`] != 4 {
		t.Errorf("the engines got bodies that end with %v", bodies)
	}
	// The OpenAI-compatible path, where the body names a model too.
	a := send(compat, `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`, "sql")
	if a.Header.Get("X-Warmroute-Backend") != homes["sql"] || a.Header.Get("X-Warmroute-Reason") != router.LongestMatch.String() {
		t.Errorf("the same prompt on the other path: %s by %s", a.Header.Get("X-Warmroute-Backend"), a.Header.Get("X-Warmroute-Reason"))
	}
	// The base model has nothing of it.
	if a := f.send(invoke, chat); a.Header.Get("X-Warmroute-Predicted-Cached-Tokens") != "0" {
		t.Errorf("the base model is predicted to find %s tokens", a.Header.Get("X-Warmroute-Predicted-Cached-Tokens"))
	}
	// One that no engine lists may be loaded by the one that is asked; bodies of no known shape
	// are left alone.
	if a := send(invoke, "1,2,3", "on-demand"); a.Header.Get("X-Warmroute-Reason") != router.AdapterPlaced.String() && a.Header.Get("X-Warmroute-Reason") != router.NoPrefix.String() {
		t.Errorf("an adapter that nobody lists: %s", a.Header.Get("X-Warmroute-Reason"))
	}
}

func TestAdaptersThatAreNone(t *testing.T) {
	e := newEngine(t, nil)
	f := start(t, []string{e.url})
	for _, name := range []string{"", strings.Repeat("a", 257), "a\tb", "ü"} {
		f.send(invoke, `{"messages":[]}`, adapterHeader, name).problem(t, http.StatusBadRequest, "ValidationError")
	}
	// Without an endpoint nobody says which pool would load it.
	if a := f.send("/v1/chat/completions", `{"model":"m","messages":[]}`, adapterHeader, "unknown"); a.StatusCode != http.StatusNotFound {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if e.count() > 0 {
		t.Error("the engine was asked")
	}
}
