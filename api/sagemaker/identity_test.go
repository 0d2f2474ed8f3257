package sagemaker_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/router"
)

// keysOf sends a request and returns what its record says of the prompt, as far as it decides.
func (f *fleet) keysOf(n int, path, body string, headers ...string) string {
	f.t.Helper()
	if got := f.send(path, body, headers...); got.StatusCode != http.StatusOK {
		f.t.Fatalf("%s: %d %s", path, got.StatusCode, got.body)
	}
	r := f.record(n)
	return fmt.Sprint(r.Keys[:r.PromptBlocks])
}

// spellings are one chat request with other white space, key order and parameters.
func spellings(text string) []string {
	return []string{
		fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"temperature":0.1,"max_tokens":10}`, text),
		fmt.Sprintf("{ \"max_tokens\" : 20,\n\t\"messages\" : [ { \"content\" : %q , \"role\" : \"user\" } ] }", text),
		fmt.Sprintf(`{"stream":false,"messages":[{"content":[{"type":"text","text":%q}],"role":"user"}]}`, text),
	}
}

// With native_key auto the prompt is what counts, with raw the bytes of the body.
func TestNativeKey(t *testing.T) {
	for _, key := range []router.NativeKey{router.NativeAuto, router.NativeRaw} {
		f := start(t, []string{newEngine(t, nil).url}, func(s *setup) { s.pools[0].Config.NativeKey = key })
		distinct, n := map[string]bool{}, 0
		for _, path := range []string{invoke, stream, "/invocations"} {
			for _, body := range spellings(long("a prompt")) {
				n++
				distinct[f.keysOf(n, path, body)] = true
			}
		}
		if want := map[router.NativeKey]int{router.NativeAuto: 1, router.NativeRaw: 3}[key]; len(distinct) != want {
			t.Errorf("%s: %d identities, want %d", key, len(distinct), want)
		}
	}
}

// The same chat body however it is written goes to one backend; as raw bytes it may not.
func TestSpellingsStayTogether(t *testing.T) {
	engines := []string{newEngine(t, nil).url, newEngine(t, nil).url, newEngine(t, nil).url}
	for _, key := range []router.NativeKey{router.NativeAuto, router.NativeRaw} {
		f := start(t, engines, func(s *setup) { s.pools[0].Config.NativeKey = key })
		n, apart := 0, 0
		for i := range 12 {
			seen := map[string]bool{}
			for _, body := range spellings(long(fmt.Sprint("prompt ", i))) {
				if got := f.send(invoke, body); got.StatusCode != http.StatusOK {
					t.Fatalf("%d %s", got.StatusCode, got.body)
				}
				n++
				seen[f.record(n).Backend] = true
			}
			if len(seen) > 1 {
				apart++
			}
		}
		if key == router.NativeAuto && apart > 0 {
			t.Errorf("auto: %d of 12 prompts went to several backends", apart)
		}
		if key == router.NativeRaw && apart == 0 {
			t.Error("raw: every spelling went to one backend, which the bytes cannot have said")
		}
	}
}

// A native invocation has the identity of the same prompt on the OpenAI-compatible path.
func TestNativeAndCompatibleShare(t *testing.T) {
	f := start(t, []string{newEngine(t, nil).url})
	text := long("shared")
	native := f.keysOf(1, invoke, chat(text))
	if compatible := f.keysOf(2, compat, chat(text, `,"model":"m"`)); compatible != native || native == "[]" {
		t.Errorf("the keys differ: %.80s and %.80s", native, compatible)
	}
}

// PrefixLength is bytes of a body that is taken as it is, and characters of message text
// of one that is read.
func TestPrefixLength(t *testing.T) {
	const length = 1024
	head := strings.Repeat("é", length) // two bytes each
	for _, test := range []struct {
		key    router.NativeKey
		path   string
		hashed int // at most, in bytes
	}{
		{router.NativeRaw, invoke, length},
		{router.NativeAuto, invoke, 2*length + 64},
		{router.NativeRaw, compat, 2*length + 64}, // not a native invocation
	} {
		f := start(t, []string{newEngine(t, nil).url}, func(s *setup) {
			s.pools[0].Config.NativeKey, s.pools[0].Config.PrefixLength = test.key, length
		})
		first := f.keysOf(1, test.path, chat(head+long("one")))
		second := f.keysOf(2, test.path, chat(head+long("another")))
		if r := f.record(1); first != second || r.PromptBlocks*r.BlockBytes > test.hashed || r.PromptBlocks*r.BlockBytes < test.hashed-320 {
			t.Errorf("%s %s: %d blocks of %d, equal %v", test.key, test.path, r.PromptBlocks, r.BlockBytes, first == second)
		}
		if test.path == invoke && test.key == router.NativeRaw {
			// Beyond the bytes nothing counts, within them everything does.
			if third := f.keysOf(3, test.path, " "+chat(head+long("one"))); third == first {
				t.Error("a space in front does not count")
			}
		}
	}
}

// Tenants: equal prompts under different ids are different prompts. The id of the header
// and prompt_cache_key name the same tenants.
func TestTenants(t *testing.T) {
	const header = "X-Amzn-SageMaker-Prefix-Aware-Id"
	f := start(t, []string{newEngine(t, nil).url})
	text, n := strings.Repeat("the same eight thousand characters ", 235), 0
	keys := func(path, more string, headers ...string) string {
		n++
		return f.keysOf(n, path, chat(text, more), headers...)
	}
	none, a, b := keys(invoke, ""), keys(invoke, "", header, "a"), keys(invoke, "", header, "b")
	if none == a || a == b || none == b {
		t.Error("tenants share a prompt")
	}
	for _, path := range []string{invoke, stream, compat, "/invocations"} {
		if keys(path, "") != none || keys(path, "", header, "a") != a || keys(path, `,"prompt_cache_key":"a"`) != a {
			t.Errorf("%s: a tenant is another than elsewhere", path)
		}
		both := keys(path, `,"prompt_cache_key":"b"`, header, "a")
		if both == a || both == b || both == keys(path, `,"prompt_cache_key":"a"`, header, "b") {
			t.Errorf("%s: header and key together are no tenant of their own", path)
		}
		odd := keys(path, `,"prompt_cache_key":"\u0000a"`)
		if odd == a || odd == none {
			t.Errorf("%s: an odd key is another's", path)
		}
	}
}

// Two tenants with one prompt have an affinity each.
func TestTenantsHaveTheirOwnAffinity(t *testing.T) {
	const header = "X-Amzn-SageMaker-Prefix-Aware-Id"
	f := start(t, []string{newEngine(t, nil).url, newEngine(t, nil).url})
	body := chat(strings.Repeat("the same eight thousand characters ", 235))
	f.send(invoke, body, header, "a")
	home := f.record(1).Backend
	for _, b := range f.router.Pools()[0].Backends() {
		if b.ID == home { // busy with something else for a moment
			b.SetPeersInFlight(3)
			defer b.SetPeersInFlight(0)
		}
	}
	f.send(invoke, body, header, "b")
	f.send(invoke, body, header, "a")
	f.send(invoke, body, header, "b")
	if f.record(3).Backend != home || f.record(2).Backend == home || f.record(4).Backend != f.record(2).Backend {
		t.Errorf("a went to %s and %s, b to %s and %s", home, f.record(3).Backend, f.record(2).Backend, f.record(4).Backend)
	}
}

// MT-01: salts keep chains apart on these paths too.
func TestMT01Salts(t *testing.T) {
	f := start(t, []string{newEngine(t, nil).url})
	seen, n := map[string]bool{}, 0
	for _, path := range []string{invoke, compat} {
		for _, salt := range []string{"", `,"cache_salt":"a"`, `,"cache_salt":"b"`} {
			n++
			seen[f.keysOf(n, path, chat(long("x"), salt))] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d chains, want 3", len(seen))
	}
}

// MT-04: two models with the same text share nothing.
func TestMT04Models(t *testing.T) {
	f := start(t, []string{newEngine(t, nil).url}, func(s *setup) {
		s.pools[0].Models = append(s.pools[0].Models, router.ModelSpec{Name: "other"})
	})
	first := f.keysOf(1, invoke, chat(long("x"), `,"model":"m"`))
	if first == f.keysOf(2, invoke, chat(long("x"), `,"model":"other"`)) {
		t.Error("two models share keys")
	}
	if first != f.keysOf(3, invoke, chat(long("x"), `,"model":"alias-of-m"`)) {
		t.Error("an alias has keys of its own")
	}
}
