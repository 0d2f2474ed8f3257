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
	for i, line := range got { // whole elements are long
		if before, _, cut := strings.Cut(line, ": url:"); cut {
			got[i] = before
		}
		if before, _, cut := strings.Cut(line, ": name:"); cut {
			got[i] = before
		}
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
		`live log.level: info → debug`,
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, line := range got {
		if strings.Contains(line, "value-of") {
			t.Errorf("a secret is shown: %s", line)
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
