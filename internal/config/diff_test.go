package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	read := func(text string) *Config {
		t.Helper()
		c, _, err := parse("a.yaml", []byte(text), func(name string) (string, bool) { return "value-of-" + name, true })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	from := read(`
version: 1
listen: ":8080"
key_seed: ${ONE}
keys:
  - {name: rotated, token_sha256: a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1}
  - {name: signs, access_key_id: AK, secret: "${ONE}"}
  - {name: withdrawn, token_sha256: b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2}
admin_keys: [{name: on-call, token_sha256: c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3}]
pools:
  - name: chat
    models: [{name: m}]
    routing: {strategy: RANDOM, concurrency_threshold: 8}
    backends: [{url: http://b1:80}, {url: http://b2:80, weight: 2}]
  - name: gone
    models: [{name: g}]
    backends: [{url: http://b9:80}]
log: {level: info}
`)
	to := read(`
version: 1
listen: ":9080"
key_seed: ${TWO}
keys:
  - {name: rotated, token_sha256: d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4}
  - {name: signs, access_key_id: AK, secret: "${TWO}"}
  - {name: new, token_sha256: e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5}
admin_keys: [{name: on-call, token_sha256: f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6}]
pools:
  - name: chat
    models: [{name: m}]
    routing: {strategy: PREFIX_AWARE, concurrency_threshold: 8, block_bytes: 512}
    backends: [{url: http://b2:80, weight: 3}, {url: http://b3:80}]
log: {level: debug}
redis: {addresses: [r:6379]}
`)
	var got []string
	for _, c := range Diff(from, to) {
		kind := "restart"
		if c.Live {
			kind = "live"
		}
		got = append(got, kind+" "+c.String())
	}
	want := []string{
		`restart listen: :8080 → :9080`,
		`restart pools[gone]: removed`,
		`live pools[chat].routing.strategy: RANDOM → PREFIX_AWARE`,
		`restart pools[chat].routing.block_bytes: 256 → 512`,
		`live pools[chat].backends[http://b1:80]: removed`,
		`live pools[chat].backends[http://b2:80].weight: 2 → 3`,
		`live pools[chat].backends[http://b3:80]: added`,
		`restart redis.addresses: [] → - r:6379`,
		`restart key_seed: (redacted) → (redacted)`,
		`live keys[rotated].token_sha256: (redacted) → (redacted)`,
		`live keys[signs].secret: (redacted) → (redacted)`,
		`live keys[withdrawn]: removed`,
		`live keys[new]: added`,
		`live admin_keys[on-call].token_sha256: (redacted) → (redacted)`,
		`live log.level: info → debug`,
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, line := range got {
		for _, secret := range []string{"value-of", "a1a1", "b2b2", "c3c3", "d4d4", "e5e5", "f6f6"} {
			if strings.Contains(line, secret) {
				t.Errorf("a secret is shown: %s", line)
			}
		}
	}
	if same := Diff(from, from); len(same) > 0 {
		t.Errorf("a configuration differs from itself: %v", same)
	}
}

// Everything that a file may hold is compared.
func TestDiffComparesEveryKey(t *testing.T) {
	all := parseEverything(t)
	defaults, _ := mustParse(t, minimal)
	found := make(map[string]bool)
	for _, c := range Diff(defaults, all) {
		top, _, _ := strings.Cut(c.Key, ".")
		top, _, _ = strings.Cut(top, "[")
		found[top] = true
	}
	for _, key := range Keys() {
		if !strings.Contains(key, ".") && key != "version" && !found[key] {
			t.Errorf("%s is not compared", key)
		}
	}
}
