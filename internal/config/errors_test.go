package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/warmroute/warmroute/internal/certtest"
)

// Every mistake is reported at once, each with file, line, key, value and what it
// may be.
func TestCF03EveryMistakeAtOnce(t *testing.T) {
	got := problems(t, `version: 1
pools:
  - name: chat
    routing:
      concurency_threshold: 64
      concurrency_threshold: -1
    backends: []
  - name: chat
    backends:
      - url: http://b1:8000
        weight: -2
timeouts:
  connect: 5
  idle: soon
listen: 8080
`)
	want := []string{
		"warmroute.yaml:5: pools[0].routing.concurency_threshold: unknown key \"concurency_threshold\": did you mean concurrency_threshold?",
		"warmroute.yaml:6: pools[0].routing.concurrency_threshold: -1 is not in 1..1024",
		"warmroute.yaml:7: pools[0].backends: pool \"chat\" has no backend: name at least one by its url, or a source in discovery",
		"warmroute.yaml:8: pools[1].name: \"chat\" is already the name of another pool, pools[0].name in line 3",
		"warmroute.yaml:11: pools[1].backends[0].weight: -2 is not above 0",
		"warmroute.yaml:13: timeouts.connect: 5 has no unit: write 5s for seconds, 5ms for milliseconds",
		"warmroute.yaml:14: timeouts.idle: \"soon\" is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 1h",
		"warmroute.yaml:15: listen: 8080 is a number, want text: put it in quotes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMistakes(t *testing.T) {
	pool := func(lines string) string {
		return "version: 1\npools:\n- name: chat\n  backends: [{url: 'http://b1:8000'}]\n" + lines
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "warmroute.yaml: the file is empty: it needs version: 1 and pools"},
		{"comment only", "# nothing\n", "warmroute.yaml: the file is empty: it needs version: 1 and pools"},
		{"a list", "- a\n", "warmroute.yaml:1: is a list, want keys: version, listen"},
		{"two documents", minimal + "---\nversion: 1\n", "warmroute.yaml:"},
		{"broken", "version: 1\npools: [\n", "not YAML"},
		{"tab", "version: 1\npools:\n\t- x\n", "warmroute.yaml:3: not YAML"},
		{"no version", strings.Replace(minimal, "version: 1", "log: {level: info}", 1), "version: is missing: write version: 1"},
		{"version 2", strings.Replace(minimal, "version: 1", "version: 2", 1), "warmroute.yaml:1: version: 2 is not a version this program reads, want 1"},
		{"version text", strings.Replace(minimal, "version: 1", "version: one", 1), `warmroute.yaml:1: version: "one" is text, want a whole number`},
		{"no pools", "version: 1\n", "pools: there is no pool"},
		{"no value", "version: 1\npools:\n", "warmroute.yaml:2: pools: has no value: leave the key out for its default"},
		{"duplicate key", pool("listen: :1\nlisten: :2\n"), "warmroute.yaml:6: listen: the key is there twice, first in line 5"},
		{"unknown elsewhere", pool("strategy: RANDOM\n"), `warmroute.yaml:5: strategy: unknown key "strategy" here: it belongs to pools[].routing.strategy`},
		{"unknown", pool("colour: blue\n"), `warmroute.yaml:5: colour: unknown key "colour", want one of version, listen`},
		{"merge key", pool("<<: {listen: :1}\n"), "merge keys are not supported"},
		{"key no name", pool("? [a]\n: b\n"), "a key must be a name, this is a list"},
		{"mapping for list", "version: 1\npools: {name: chat}\n", "warmroute.yaml:2: pools: is a group of keys, want a list"},
		{"text for keys", pool("limits: big\n"), "warmroute.yaml:5: limits: is text, want keys: body_bytes"},
		{"list for text", pool("listen: [a]\n"), "warmroute.yaml:5: listen: is a list, want text"},
		{"list for size", pool("limits: {body_bytes: [1]}\n"), "limits.body_bytes: is a list, want a size such as 64MiB"},
		{"number for bool", pool("inject_usage: 1\n"), `inject_usage: "1" is a number, want true or false`},
		{"bool for number", pool("  routing: {w: true}\n"), `pools[0].routing.w: "true" is true or false, want a number`},
		{"fraction for whole", pool("  routing: {replicas: 1.5}\n"), `pools[0].routing.replicas: "1.5" is a number, want a whole number`},
		{"number too large", pool("  routing: {replicas: 99999999999999999999}\n"), `pools[0].routing.replicas: "99999999999999999999" is too large`},
		{"blocks too large", pool("limits: {index_blocks: 99999999999999999999}\n"), `limits.index_blocks: "99999999999999999999" is too large`},
		{"no share of the queue", pool("limits: {queue_share: 0}\n"), `limits.queue_share: 0 is not above 0 and at most 1 (which is no bound)`},
		{"too large a share", pool("limits: {queue_share: 1.5}\n"), `limits.queue_share: 1.5 is not above 0 and at most 1`},
		{"negative tokens", pool("keys: [{name: a, token_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', tokens_per_minute: -1}]\n"), `keys[0].tokens_per_minute: -1 is neither 0 (as many as come) nor up to 1,000,000,000`},
		{"too little to remember", pool("limits: {recent_requests_bytes: 1000}\n"), `limits.recent_requests_bytes: 1000 is neither 0 (off) nor in 1MiB..16GiB`},
		{"size too large", pool("limits: {body_bytes: 99999999999999999999}\n"), `limits.body_bytes: "99999999999999999999" is too large`},
		{"nan", pool("  routing: {w: .nan}\n"), "warmroute.yaml:5: pools[0].routing.w: NaN is not in 1..4"},
		{"strategy", pool("  routing: {strategy: PREFIX_AWRE}\n"), `"PREFIX_AWRE" is not one of RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_HASH, PREFIX_AWARE, LEAST_EXPECTED_TTFT: did you mean PREFIX_AWARE?`},
		{"load factor", pool("  routing: {load_factor: 0.5}\n"), "pools[0].routing.load_factor: 0.5 is neither 0 (off) nor at least 1"},
		{"short observation", pool("  tuning: {automatic: true, observation: 10s}\n"), "warmroute.yaml:5: pools[0].tuning.observation: 10s is not in 1m0s..24h0m0s"},
		{"automatic without memory", pool("  tuning: {automatic: true}\nlimits: {recent_requests_bytes: 0}\n"), "warmroute.yaml:5: pools[0].tuning.automatic: it follows advice, which rests on remembered requests: set limits.recent_requests_bytes above 0"},
		{"ejection", pool("  ejection: {failures: 0}\n"), "warmroute.yaml:5: pools[0].ejection.failures: 0 is below 1"},
		{"ejection base", pool("  ejection: {base: 10m}\n"), "pools[0].ejection.max: 5m0s is below ejection.base 10m0s"},
		{"negative duration", pool("timeouts: {idle: -5s}\n"), `timeouts.idle: "-5s" is negative`},
		{"zero timeout", pool("timeouts: {idle: 0s}\n"), "timeouts.idle: 0s is not above 0"},
		{"size unit", pool("limits: {body_bytes: 64 mib}\n"), `limits.body_bytes: "64 mib" is not a size`},
		{"size negative", pool("limits: {body_bytes: -1}\n"), `limits.body_bytes: "-1" is negative`},
		{"size overflow", pool("limits: {body_bytes: 99999999TiB}\n"), `limits.body_bytes: "99999999TiB" is too large`},
		{"size small", pool("limits: {body_bytes: 10}\n"), "limits.body_bytes: 10 is below 1KiB"},
		{"bodies below body", pool("limits: {bodies_in_flight_bytes: 1MiB}\n"), "limits.bodies_in_flight_bytes: 1MiB is below limits.body_bytes (64MiB)"},
		{"address", pool("listen: nowhere\n"), `warmroute.yaml:5: listen: "nowhere" is not an address`},
		{"port", pool("listen: ':http'\n"), `listen: ":http": port "http" is not in 0..65535`},
		{"same address", pool("listen: 127.0.0.1:9090\n"), `admin_listen: "127.0.0.1:9090" and the address of listen, "127.0.0.1:9090", overlap: give the two different ports`},
		{"overlapping addresses", pool("listen: :28085\nadmin_listen: 127.0.0.1:28085\n"), `warmroute.yaml:6: admin_listen: "127.0.0.1:28085" and the address of listen, ":28085", overlap`},
		{"admin port for everybody", pool("admin_listen: :9090\n"), `warmroute.yaml:5: admin_listen: other machines can reach ":9090", and whoever does could change the router: say who may in admin_keys or admin_tls.client_ca_file, or listen on 127.0.0.1`},
		{"admin port by address", pool("admin_listen: '10.0.0.1:9090'\n"), `admin_listen: other machines can reach "10.0.0.1:9090"`},
		{"admin port by name", pool("admin_listen: 'router.example:9090'\n"), `admin_listen: other machines can reach "router.example:9090"`},
		{"admin key without a name", pool("admin_keys: [{token_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'}]\n"), "admin_keys[0].name: is missing"},
		{"admin key without a hash", pool("admin_keys: [{name: ops}]\n"), "warmroute.yaml:5: admin_keys[0].token_sha256: is missing: want the SHA-256 hash of a token"},
		{"admin key that is none", pool("admin_keys: [{name: ops, token_sha256: hunter2}]\n"), "admin_keys[0].token_sha256: is not a SHA-256 hash: want 64 hex digits, as `printf %s TOKEN | sha256sum` prints them"},
		{"admin key from nowhere", pool("admin_keys: [{name: ops, token_sha256: '${NOWHERE_SHA256}'}]\n"), "admin_keys[0].token_sha256: the environment variable NOWHERE_SHA256 is not set"},
		{"admin key twice", pool("admin_keys:\n  - {name: a, token_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'}\n  - {name: b, token_sha256: '9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08'}\n"), `warmroute.yaml:7: admin_keys[1].token_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" is there already, admin_keys[0].token_sha256 in line 6`},
		{"one key for both", pool("admin_keys: [{name: a, token_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'}]\nkeys: [{name: b, token_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'}]\n"), "warmroute.yaml:6: keys[0].token_sha256: is a key of the admin port too, admin_keys[0].token_sha256 in line 5"},
		{"scrape interval", pool("scrape: {interval: 1ms}\n"), "warmroute.yaml:5: scrape.interval: 1ms is below 10ms"},
		{"scrape timeout", pool("scrape: {timeout: 0s}\n"), "scrape.timeout: 0s is not above 0"},
		{"scrape path", pool("scrape: {path: metrics}\n"), `scrape.path: "metrics" is not a path: want one such as /metrics`},
		{"scrape query", pool("scrape: {path: '/metrics?a=b'}\n"), `scrape.path: "/metrics?a=b" is not a path`},
		{"scrape escape", pool("scrape: {path: '/%zz'}\n"), `scrape.path: "/%zz" is not a path`},
		{"level", pool("log: {level: warning}\n"), `log.level: "warning" is not one of debug, info, warn, error`},
		{"request log size", pool("request_log: {path: r.jsonl, max_bytes: 4096}\n"), "warmroute.yaml:5: request_log.max_bytes: 4KiB is below 1MiB"},
		{"request log key", pool("request_log: {file: r.jsonl}\n"), `warmroute.yaml:5: request_log.file: unknown key "file", want one of path, max_bytes`},
		{"redis without addresses", pool("redis: {username: a}\n"), "warmroute.yaml:5: redis.addresses: is missing"},
		{"redis with no addresses", pool("redis:\n  addresses: []\n"), "warmroute.yaml:6: redis.addresses: none is given"},
		{"redis address", pool("redis: {addresses: [redis]}\n"), `warmroute.yaml:5: redis.addresses[0]: "redis" is not an address`},
		{"redis address as text", pool("redis: {addresses: 'redis:6379'}\n"), "redis.addresses: is text, want a list"},
		{"several redis addresses", pool("redis: {addresses: ['a:1', 'b:2']}\n"), "redis.addresses: there are 2: say what they are with cluster: true"},
		{"redis namespace", pool("redis: {addresses: ['a:1'], namespace: 'a b'}\n"), `redis.namespace: "a b"`},
		{"redis ttl", pool("redis: {addresses: ['a:1'], ttl: 1s}\n"), "redis.ttl: 1s is below 1m0s"},
		{"redis password unset", pool("redis: {addresses: ['a:1'], password: '${WARMROUTE_TEST_UNSET}'}\n"), "redis.password: the environment variable WARMROUTE_TEST_UNSET is not set"},
		{"redis ca", pool("redis:\n  addresses: ['a:1']\n  tls:\n    enabled: true\n    ca_file: nowhere.pem\n"), "warmroute.yaml:9: redis.tls.ca_file: open nowhere.pem"},
		{"redis ca that is none", pool("redis: {addresses: ['a:1'], tls: {enabled: true, ca_file: redis.go}}\n"), "redis.tls.ca_file: redis.go: there is no certificate in it"},
		{"redis key without certificate", pool("redis: {addresses: ['a:1'], tls: {enabled: true, key_file: a.pem}}\n"), "redis.tls.cert_file: is missing"},
		{"redis certificate without key", pool("redis: {addresses: ['a:1'], tls: {enabled: true, cert_file: a.pem}}\n"), "redis.tls.key_file: is missing"},
		{"redis certificate", pool("redis: {addresses: ['a:1'], tls: {enabled: true, cert_file: a.pem, key_file: b.pem}}\n"), "redis.tls.cert_file: open a.pem"},
		{"env elsewhere", pool("listen: ${HOST}:80\n"), "warmroute.yaml:5: listen: holds ${…}: only secrets (key_seed, passwords, keys) are taken from the environment"},
		{"env in duration", pool("timeouts: {idle: '${IDLE}'}\n"), "timeouts.idle: holds ${…}"},
		{"env unset", pool("key_seed: ${WARMROUTE_TEST_UNSET}\n"), "key_seed: the environment variable WARMROUTE_TEST_UNSET is not set"},
		{"env open", pool("key_seed: ${SEED\n"), "key_seed: a ${ without its }"},
		{"no pool name", "version: 1\npools:\n- backends: [{url: 'http://b1'}]\n", "warmroute.yaml:3: pools[0].name: is missing"},
		{"space in name", strings.Replace(minimal, "chat", "chat pool", 1), `"chat pool" has a space`},
		{"no url", "version: 1\npools:\n- name: a\n  backends: [{weight: 1}]\n", "warmroute.yaml:4: pools[0].backends[0].url: is missing"},
		{"url scheme", strings.Replace(minimal, "http://b1:8000", "b1:8000", 1), "pools[0].backends[0].url: "},
		{"backend as text", "version: 1\npools:\n- name: a\n  backends: ['http://b1']\n", "pools[0].backends[0]: is text, want keys: url, weight"},
		{"threshold 0", strings.Replace(minimal, "url: http://b1:8000", "{url: 'http://b1:8000', concurrency_threshold: 0}", 1), "pools[0].backends[0].concurrency_threshold: 0 is not in 1..1024"},
		{"ranks", strings.Replace(minimal, "url: http://b1:8000", "{url: 'http://b1:8000', data_parallel_ranks: -1}", 1), "data_parallel_ranks: -1 is not in 0..1024"},
		{"too many backends", "version: 1\npools:\n- name: a\n  backends: [" + strings.TrimSuffix(manyBackends(5), ",") + "]\n", "pools[0]: kvindex: too many backends for one index: they would be 5120, and 4096 at most"},
		{"model twice", pool("  models: [a, a]\n"), `pools[0].models[1]: the model "a" is named twice, first by pools[0].models[0] in line 5`},
		{"model nameless", pool("  models: [{served: a}]\n"), "pools[0].models[0]: a model needs a name"},
		{"alias shadows", pool("  models: [{name: a, served: b}, {name: b, served: c}]\n"), `the alias "b" is also what an engine calls a model`},
	} {
		got := problems(t, test.text)
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, test.want) }) {
			t.Errorf("%s: got\n  %s\nwant one with\n  %s", test.name, strings.Join(got, "\n  "), test.want)
		}
		if len(got) > 1 {
			t.Errorf("%s: one mistake gives %d errors:\n  %s", test.name, len(got), strings.Join(got, "\n  "))
		}
	}
}

// manyBackends are more than one index can number.
func manyBackends(thousands int) string {
	var b strings.Builder
	for i := range thousands {
		b.WriteString("{url: 'http://b" + string(rune('0'+i)) + ":8000', data_parallel_ranks: 1024},")
	}
	return b.String()
}

func TestAliasBombsAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\npools:\n- name: a\n  models: &m [" + strings.Repeat("x,", 999) + "x]\n  backends: [{url: 'http://b'}]\n")
	for range 500 {
		b.WriteString("- {models: *m}\n")
	}
	got := problems(t, b.String())
	if len(got) != 1 || !strings.Contains(got[0], "values") {
		t.Errorf("%d errors, first %v", len(got), got[:min(len(got), 1)])
	}
}

func TestAliasesShareValues(t *testing.T) {
	c, _ := mustParse(t, "version: 1\npools:\n- name: a\n  routing: &r {w: 3}\n  models: [m]\n  backends: [{url: 'http://b'}]\n- name: b\n  routing: *r\n  backends: [{url: 'http://c'}]\n")
	if c.Pools[1].Routing.W != 3 {
		t.Errorf("w is %v, want 3", c.Pools[1].Routing.W)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1": 1, "10B": 10, "2kB": 2000, "2KiB": 2048, "64MiB": 64 << 20, "1 GiB": 1 << 30, "3TB": 3e12} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for b, want := range map[Bytes]string{0: "0", 1000: "1000", 1024: "1KiB", 3 << 30: "3GiB", 1 << 40: "1TiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d is shown as %q, want %q", int64(b), got, want)
		}
	}
}

func TestSecretsMustNotBeEmpty(t *testing.T) {
	_, _, err := parse("w.yaml", []byte(minimal+"key_seed: ${EMPTY}\n"), func(string) (string, bool) { return "", true })
	if err == nil || !strings.Contains(err.Error(), "the environment variable EMPTY is empty") {
		t.Errorf("parse: %v", err)
	}
}

// The manual states the defaults that are in force.
func TestDefaultsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	pool := DefaultPool()
	pool.Backends, pool.Models = []Backend{{Weight: 1}}, []Model{{}}
	pool.Discovery.Files = make([]FileDiscovery, 1)
	pool.Discovery.Files[0].setDefaults()
	pool.Discovery.DNS = make([]DNSDiscovery, 1)
	pool.Discovery.DNS[0].setDefaults()
	pool.Discovery.Kubernetes = make([]KubernetesDiscovery, 1)
	pool.Discovery.Kubernetes[0].setDefaults()
	c.Pools = []Pool{pool}
	checked := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || !strings.HasPrefix(cells[0], "| `") {
			continue
		}
		key, stated := strings.Trim(cells[0], "| `"), strings.TrimSpace(cells[2])
		if !strings.HasPrefix(stated, "`") {
			continue // required, learned, none, see below
		}
		value := reflect.ValueOf(c).Elem()
		for name := range strings.SplitSeq(key, ".") {
			name, list := strings.CutSuffix(name, "[]")
			value, _ = fieldByName(value, name)
			if list {
				value = value.Index(0)
			}
		}
		var node yaml.Node
		if err := yaml.Load([]byte(strings.Trim(stated, "`")), &node); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		want := reflect.New(value.Type()).Elem()
		d := &decoder{lines: make(map[string]int)}
		d.value(node.Content[0], want, key)
		if len(d.errs) > 0 || !reflect.DeepEqual(want.Interface(), value.Interface()) {
			t.Errorf("docs/config.md says that the default of %s is %s, it is %v %v", key, stated, value.Interface(), d.errs)
		}
		checked++
	}
	if checked < 35 {
		t.Errorf("only %d defaults were found", checked)
	}
}

// The manual names every key.
func TestEveryKeyIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range Keys() {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("docs/config.md does not name `%s`", key)
		}
	}
}

func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	// The certificates that they name are elsewhere here.
	dir, pair := t.TempDir(), certtest.New(t, "tests").Issue("router", time.Now().Add(time.Hour))
	certtest.Write(t, dir, "tls.crt", pair.Certificate)
	certtest.Write(t, dir, "tls.key", pair.Key)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("/etc/warmroute/tls"), []byte(dir))
		c, warnings, err := parse(file, text, func(name string) (string, bool) {
			if strings.HasSuffix(name, "_SHA256") {
				return strings.Repeat("0123456789abcdef", 4), true
			}
			return "secret", true
		})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%v %v", err, warnings)
			continue
		}
		again, _, err := Parse(file, []byte(c.String()))
		if err != nil || again.String() != c.String() {
			t.Errorf("%s does not survive a round trip: %v", file, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(everything))
	f.Add([]byte("version: 1\npools: &a [*a]\n"))
	f.Add([]byte("a: &a {b: *a}\n"))
	f.Add([]byte("version: 1\nlisten: \"\\x00${\"\n? {}\n: 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := parse("f.yaml", data, func(string) (string, bool) { return "s3cret", true })
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse returned %v and %v", c, err)
		}
		if err != nil {
			keys, lines := rootKeys(data), bytes.Count(data, []byte("\n"))+1
			for _, e := range Each(err) {
				at, ok := errors.AsType[*Error](e)
				if !ok || !strings.HasPrefix(e.Error(), "f.yaml") {
					t.Errorf("the error does not name the file: %v", e)
					continue
				}
				top, _, _ := strings.Cut(strings.ReplaceAll(at.Path, "[", "."), ".")
				if at.Line < 0 || at.Line > lines+1 /* the end, where something is missing */ || at.Line == 0 && slices.Contains(keys, top) {
					t.Errorf("line %d of %d: %v", at.Line, lines, e)
				}
			}
			return
		}
		// What is valid can be built, shown, and read again to the same effect.
		again, _, err := parse("g.yaml", []byte(c.String()), nil)
		if err != nil {
			t.Fatalf("not valid when shown: %v\n%s", err, c)
		}
		if diff := cmp.Diff(c.PoolSpecs(), again.PoolSpecs()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(c.String(), again.String()); diff != "" {
			t.Errorf("shown again: (-want +got)\n%s", diff)
		}
	})
}

// rootKeys are the keys of a document that there are.
func rootKeys(data []byte) (keys []string) {
	var document yaml.Node
	if yaml.Load(data, &document, yaml.WithUniqueKeys(false)) != nil || len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(document.Content[0].Content); i += 2 {
		keys = append(keys, document.Content[0].Content[i].Value)
	}
	return keys
}

func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{":80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "0.0.0.0:80", true},
		{"[::]:80", "10.0.0.1:80", true},
		{"localhost:80", "127.0.0.1:80", true},
		{"[::1]:80", "[0:0:0:0:0:0:0:1]:80", true},
		{"Router:80", "router:080", true},
		{"10.0.0.1:80", "10.0.0.2:80", false},
		{":80", ":81", false},
		{":0", ":0", false},
		{"nowhere", "nowhere", false},
	} {
		if overlap(test.a, test.b) != test.want || overlap(test.b, test.a) != test.want {
			t.Errorf("overlap(%q, %q) is not %v", test.a, test.b, test.want)
		}
	}
}

// A URL without its scheme is repeated, unless there may be a key in it.
func TestBackendsWithoutScheme(t *testing.T) {
	for _, raw := range []string{"127.0.0.1:28001", "b1:8000", "b1"} {
		if _, err := parseURL(raw); err == nil || !strings.Contains(err.Error(), `"`+raw+`"`) || !strings.Contains(err.Error(), "want http://host:port") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{"hunter2@127.0.0.1:8000", "me:hunter2@b1:8000", "127.0.0.1:8000?key=hunter2", "b1:8000#hunter2"} {
		if _, err := parseURL(raw); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "want http://host:port") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
