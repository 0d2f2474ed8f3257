package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/router"
)

const minimal = `version: 1
pools:
  - name: chat
    backends:
      - url: http://b1:8000
`

// mustParse parses a file that is valid.
func mustParse(t *testing.T, text string) (*Config, []Warning) {
	t.Helper()
	c, warnings, err := Parse("warmroute.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c, warnings
}

// problems parses a file and returns what is wrong with it, a line each.
func problems(t *testing.T, text string) []string {
	t.Helper()
	c, _, err := Parse("warmroute.yaml", []byte(text))
	if err != nil && c != nil {
		t.Error("Parse returned a configuration together with an error")
	}
	var lines []string
	for _, err := range Each(err) {
		lines = append(lines, err.Error())
	}
	return lines
}

func TestAbsentKeysHaveTheirDefaults(t *testing.T) {
	c, warnings := mustParse(t, minimal)
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	want := Default()
	pool := DefaultPool()
	pool.Name, pool.Backends = "chat", []Backend{{URL: "http://b1:8000", Weight: 1}}
	want.Pools = []Pool{pool}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "file" || p.String() == "lines" || p.String() == "flags" }, cmp.Ignore())
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{}), ignore); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	specs := c.PoolSpecs()
	if diff := cmp.Diff(router.DefaultConfig(), specs[0].Config); diff != "" {
		t.Errorf("router settings (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(backends.DefaultEjection(), specs[0].Ejection); diff != "" {
		t.Errorf("ejection (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(scrape.DefaultConfig(), c.ScrapeConfig()); diff != "" {
		t.Errorf("scrape (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(transport.DefaultConfig(), c.TransportConfig(), cmp.FilterPath(func(p cmp.Path) bool {
		return p.String() == "TLS" || p.String() == "DialContext"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("transport (-want +got)\n%s", diff)
	}
}

func TestZeroIsNotAbsent(t *testing.T) {
	c, _ := mustParse(t, minimal+"    routing: {load_factor: 0, queue_guard: 0, min_match_ratio: 0}\ninject_usage: false\n")
	r := c.PoolSpecs()[0].Config
	if r.LoadFactor != 0 || r.QueueGuard != 0 || r.MinMatchRatio != 0 {
		t.Errorf("load_factor %v, queue_guard %v, min_match_ratio %v, want 0", r.LoadFactor, r.QueueGuard, r.MinMatchRatio)
	}
	if r.W != 2 || c.InjectUsage || !c.DecisionHeaders {
		t.Errorf("w %v, inject_usage %v, decision_headers %v", r.W, c.InjectUsage, c.DecisionHeaders)
	}
}

// everything has a value other than the default for every key.
const everything = `version: 1
listen: 0.0.0.0:80
admin_listen: 10.0.0.1:81
tls: {cert_file: DIR/own.pem, key_file: DIR/key.pem, client_ca_file: DIR/ca.pem}
admin_tls: {cert_file: DIR/own.pem, key_file: DIR/key.pem, client_ca_file: DIR/ca.pem}
admin_keys: [{name: ops, token_sha256: 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8}]
metrics_without_key: true
keys:
  - {name: app, access_key_id: AKIDEXAMPLE, secret: "${SEED}", pools: [chat]}
  - {name: web, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, tenant: t-1, requests_per_second: 2.5, tokens_per_minute: 60000}
pools:
  - name: chat
    upstream_key: ${SEED}
    forward_rank: true
    models:
      - qwen
      - {name: gpt-4, served: qwen, adapter: true}
    routing:
      strategy: LEAST_EXPECTED_TTFT
      prefix_length: 2048
      concurrency_threshold: 64
      min_match_ratio: 0.5
      load_factor: 2
      queue_guard: 3.5
      w: 1
      on_saturation: queue
      prompt_cache_key: separate
      native_key: raw
      replicas: 3
      block_bytes: 512
    backends:
      - {url: "http://b1:8000", weight: 2.5, concurrency_threshold: 32, data_parallel_ranks: 2}
      - {url: "https://b2/engine/"}
    discovery:
      files: [{path: "targets/*.json", interval: 1m}]
      dns:
        - {name: engines.svc, type: aaaa, port: 8000, scheme: https, path: /engine, weight: 2, concurrency_threshold: 64,
           data_parallel_ranks: 4, interval: 5s, timeout: 1s, resolver: "10.0.0.10:53"}
      kubernetes:
        - {namespace: inference, service: vllm, port: http, scheme: https, path: /engine, weight: 2, concurrency_threshold: 64,
           data_parallel_ranks: 4, api_server: "https://k8s:6443", token_file: /run/token, ca_file: /run/ca.pem}
    sagemaker_endpoints: [llama, llama-2]
    variant: blue
    variant_weight: 2.5
    inference_component: chat-1
    tuning: {automatic: true, observation: 30m}
    ejection: {failures: 5, base: 1s, max: 1m, max_share: 0.25, slow_start: 0s, max_cooling: 10s}
limits:
  body_bytes: 1MiB
  bodies_in_flight_bytes: 2GB
  sagemaker_body_bytes: 2MiB
  header_bytes: 8192
  index_blocks: 100000
  max_queued: 7
  queue_share: 0.25
  recent_requests_bytes: 2MiB
timeouts: {connect: 1s, first_byte: 1h, idle: 90s, queue: 2s, read_header: 3s, shutdown_delay: 5s, shutdown_grace: 1m30s}
redis:
  addresses: [s1:26379, s2:26379]
  username: warmroute
  password: ${REDIS}
  db: 3
  sentinel_master: primary
  sentinel_username: sentinel
  sentinel_password: x${REDIS}
  cluster: false
  tls: {enabled: true, ca_file: DIR/ca.pem, cert_file: DIR/own.pem, key_file: DIR/key.pem, server_name: redis, insecure_skip_verify: false}
  namespace: fleet
  ttl: 2h
scrape: {enabled: false, interval: 15s, timeout: 4s, path: /engine/metrics}
health: {enabled: false, path: /ready, interval: 3s, timeout: 1s, failures: 2, frozen_after: 90s}
inject_usage: false
decision_headers: false
allow_backend_pin: true
forward_credentials: false
key_seed: ${SEED}
log: {level: debug, format: json}
request_log: {path: /var/log/warmroute/requests.jsonl, max_bytes: 1GiB}
`

func parseEverything(t *testing.T) *Config {
	t.Helper()
	text := strings.ReplaceAll(everything, "DIR", certificates(t))
	c, warnings, err := parse("all.yaml", []byte(text), func(name string) (string, bool) {
		return "s3cret-" + name, name == "SEED" || name == "REDIS"
	})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	return c
}

func TestEveryKeyIsRead(t *testing.T) {
	c := parseEverything(t)
	for _, key := range Keys() {
		if strings.HasSuffix(key, "[]") {
			continue
		}
		one := "keys[0]"
		if slices.Contains([]string{"keys[].token_sha256", "keys[].tenant", "keys[].requests_per_second", "keys[].tokens_per_minute"}, key) {
			one = "keys[1]" // a key is a token or an access key
		}
		parts := strings.Split(strings.NewReplacer("admin_keys[]", "admin_keys[0]", "keys[]", one, "pools[]", "pools[0]", "backends[]", "backends[0]", "models[]", "models[1]",
			"files[]", "files[0]", "dns[]", "dns[0]", "kubernetes[]", "kubernetes[0]").Replace(key), ".")
		if c.lines[strings.Join(parts, ".")] == 0 {
			t.Errorf("the file of this test does not set %s", key)
		}
	}
	got := c.PoolSpecs()[0]
	want := router.PoolSpec{
		Name:   "chat",
		Models: []router.ModelSpec{{Name: "qwen"}, {Name: "gpt-4", Served: "qwen", Adapter: true}},
		Config: router.Config{
			Strategy: router.LeastExpectedTTFT, PrefixLength: 2048, ConcurrencyThreshold: 64, MinMatchRatio: 0.5, LoadFactor: 2,
			QueueGuard: 3.5, W: 1, OnSaturation: router.Queue, PromptCacheKey: router.CacheKeySeparate, NativeKey: router.NativeRaw, Replicas: 3, BlockBytes: 512,
		},
		Ejection: backends.Ejection{Failures: 5, Base: time.Second, Max: time.Minute, MaxShare: 0.25, MaxCooling: 10 * time.Second},
		Backends: []backends.Spec{
			{URL: "http://b1:8000", Rank: 0, Weight: 2.5, ConcurrencyThreshold: 32},
			{URL: "http://b1:8000", Rank: 1, Weight: 2.5, ConcurrencyThreshold: 32},
			{URL: "https://b2/engine/", Rank: backends.NoRank, Weight: 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PoolSpecs (-want +got)\n%s", diff)
	}
	wantLimits := Limits{BodyBytes: 1 << 20, BodiesInFlightBytes: 2e9, SageMakerBodyBytes: 2 << 20, HeaderBytes: 8192, IndexBlocks: 100000, MaxQueued: 7, QueueShare: 0.25, RecentRequestsBytes: 2 << 20}
	if diff := cmp.Diff(wantLimits, c.Limits); diff != "" {
		t.Errorf("Limits (-want +got)\n%s", diff)
	}
	if p := c.Pools[0]; !slices.Equal(p.SageMakerEndpoints, []string{"llama", "llama-2"}) || p.VariantName() != "blue" || p.VariantWeight != 2.5 || p.InferenceComponent != "chat-1" {
		t.Errorf("SageMaker: %+v", p)
	}
	if r := c.Pools[0].Tuning.Rules(); r == nil || r.Observation != 30*time.Minute {
		t.Errorf("the rules of automatic mode are %v", r)
	}
	if k := c.Keys[0]; k.Name != "app" || k.AccessKeyID != "AKIDEXAMPLE" || k.Secret.Reveal() != "s3cret-SEED" || !slices.Equal(k.Pools, []string{"chat"}) {
		t.Errorf("the key is %+v", k)
	}
	if tc := c.TransportConfig(); tc.Connect != time.Second || tc.FirstByte != time.Hour || tc.Idle != 90*time.Second {
		t.Errorf("TransportConfig: %+v", tc)
	}
	if diff := cmp.Diff(Health{Path: "/ready", Interval: 3 * time.Second, Timeout: time.Second, Failures: 2, FrozenAfter: 90 * time.Second}, c.Health); diff != "" {
		t.Errorf("Health (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(Scrape{Interval: 15 * time.Second, Timeout: 4 * time.Second, Path: "/engine/metrics"}, c.Scrape); diff != "" {
		t.Errorf("Scrape (-want +got)\n%s", diff)
	}
	if sc := c.ScrapeConfig(); sc.Interval != 15*time.Second || sc.Timeout != 4*time.Second || sc.Path != "/engine/metrics" {
		t.Errorf("ScrapeConfig: %+v", sc)
	}
	if c.KeySeed.Reveal() != "s3cret-SEED" {
		t.Errorf("key_seed is %q", c.KeySeed.Reveal())
	}
}

func TestSlowScrapesAreWarnedOf(t *testing.T) {
	c, warnings := mustParse(t, minimal+"scrape: {interval: 1s}\n")
	want := "warmroute.yaml:6: scrape.timeout: 2s is longer than scrape.interval (1s): an engine that is slow to answer is looked at less often"
	if len(warnings) != 1 || warnings[0].String() != want {
		t.Errorf("warnings %v, want %s", warnings, want)
	}
	if err := c.ScrapeConfig().Validate(); err != nil {
		t.Error(err)
	}
	if _, warnings := mustParse(t, minimal+"scrape: {enabled: false, interval: 1s}\n"); len(warnings) > 0 {
		t.Errorf("a switch that is off is warned of: %v", warnings)
	}
}

func TestRequestLogWithoutPath(t *testing.T) {
	c, warnings := mustParse(t, minimal+"request_log: {max_bytes: 1MiB}\n")
	want := "warmroute.yaml:6: request_log.max_bytes: nothing is written without request_log.path"
	if len(warnings) != 1 || warnings[0].String() != want || c.RequestLog.MaxBytes != 1<<20 {
		t.Errorf("warnings %v, want %s", warnings, want)
	}
	if c, warnings := mustParse(t, minimal+"request_log: {path: r.jsonl}\n"); len(warnings) > 0 || c.RequestLog.MaxBytes != 256<<20 {
		t.Errorf("%v, max_bytes %v", warnings, c.RequestLog.MaxBytes)
	}
}

// No setting of the router or the registry is left without a key.
func TestEverySettingHasAKey(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[router.Config](), reflect.TypeFor[Routing]()},
		{reflect.TypeFor[backends.Ejection](), reflect.TypeFor[Ejection]()},
		{reflect.TypeFor[router.ModelSpec](), reflect.TypeFor[Model]()},
	} {
		for field := range pair[0].Fields() {
			name := field.Name
			if f, ok := pair[1].FieldByName(name); !ok || keyOf(f) == "" {
				t.Errorf("%v.%s has no key in %v", pair[0], name, pair[1])
			}
		}
	}
}

func TestDumpRoundTrips(t *testing.T) {
	for name, c := range map[string]*Config{"minimal": first(mustParse(t, minimal)), "everything": parseEverything(t)} {
		again, _, err := Parse("again.yaml", []byte(c.String()))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, c)
			continue
		}
		if again.String() != c.String() {
			t.Errorf("%s (-want +got)\n%s", name, cmp.Diff(c.String(), again.String()))
		}
	}
}

func first(c *Config, _ []Warning) *Config { return c }

func TestAU05NoSecretInDumpsAndErrors(t *testing.T) {
	c := parseEverything(t)
	c.Pools[0].Backends[1].URL = "http://user:hunter2@b2:8000/?token=hunter3"
	shared, _, err := c.RedisConfig()
	if err != nil || shared.Password != "s3cret-REDIS" {
		t.Errorf("the password of Redis is %q, %v", shared.Password, err)
	}
	text, err := c.KeySeed.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "seed", c.KeySeed, "config", c)
	_, invalid := c.Validate()
	bad := strings.Replace(minimal, "http://b1:8000", "http://hunter2:x@b1:8000/?token=hunter3", 1)
	outputs := []string{
		c.String(), fmt.Sprint(c.KeySeed), fmt.Sprintf("%v %+v %#v", c.KeySeed, c.KeySeed, c.KeySeed), string(text), logged.String(), invalid.Error(),
		strings.Join(problems(t, bad), "\n"),
		strings.Join(problems(t, strings.Replace(minimal, "http://b1:8000", "http://b1:80 00/hunter2", 1)), "\n"),
		strings.Join(problems(t, minimal+"key_seed: [hunter2]\n"), "\n"),
		strings.Join(problems(t, minimal+"key_seed: hunter2${X\n"), "\n"),
		strings.Join(problems(t, minimal+"key_seed: ${hunter2-x}\n"), "\n"),
	}
	if _, _, err := FromBackends([]string{"http://hunter2@b1:8000"}); err == nil {
		t.Error("credentials in a --backend were accepted")
	} else {
		outputs = append(outputs, err.Error())
	}
	for _, out := range outputs {
		if out == "" {
			t.Error("there is no output to look at")
		}
		for _, secret := range []string{"s3cret", "hunter"} {
			if strings.Contains(out, secret) {
				t.Errorf("%q is shown:\n%s", secret, out)
			}
		}
	}
}

func TestDI10TheSameBackendTwiceCountsOnce(t *testing.T) {
	text := "version: 1\npools:\n- name: chat\n  backends:\n  - url: http://b1:8000\n  - url: http://b1:8000/\n  - url: HTTP://B1:8000\n  - url: http://b2:8000\n"
	c, warnings := mustParse(t, text)
	if len(warnings) != 2 {
		t.Errorf("%d warnings, want one for each repetition: %v", len(warnings), warnings)
	}
	want := `warmroute.yaml:6: pools[0].backends[1].url: "http://b1:8000/" is backend b1:8000, which pools[0].backends[0].url in line 5 names already: it counts once, as written there`
	if got := warnings[0].String(); got != want {
		t.Errorf("warning:\n%s\nwant\n%s", got, want)
	}
	if specs := c.PoolSpecs()[0].Backends; len(specs) != 2 {
		t.Errorf("%d backends, want 2: %v", len(specs), specs)
	}
}

func TestSharedEnginesAreWarnedOf(t *testing.T) {
	_, warnings := mustParse(t, minimal+"  - name: embed\n    models: [e]\n    backends: [{url: 'http://B1:8000'}]\n")
	if len(warnings) != 1 || !strings.Contains(warnings[0].String(), `backend b1:8000 is in pool "chat" too`) {
		t.Errorf("warnings: %v", warnings)
	}
}

func TestFromBackends(t *testing.T) {
	c, _, err := FromBackends([]string{"http://a:1", "http://b:2"})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Pools[0]; p.Name != "default" || len(p.Backends) != 2 || len(p.Models) != 0 {
		t.Errorf("%+v", p)
	}
	for _, urls := range [][]string{nil, {"ftp://a"}, {"a:8000"}, {""}} {
		_, _, err := FromBackends(urls)
		if err == nil || len(urls) > 0 && !strings.Contains(err.Error(), "--backend: ") {
			t.Errorf("FromBackends(%q) = %v", urls, err)
		}
	}
}

func TestOverride(t *testing.T) {
	c, _ := mustParse(t, minimal+"  - name: embed\n    models: [e]\n    backends: [{url: 'http://b2:8000'}]\n")
	_, err := c.Override(Overrides{Listen: ":1", AdminListen: "127.0.0.1:2", Strategy: "RANDOM", Redis: "redis:6379", LogLevel: "warn", LogFormat: "json"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":1" || c.AdminListen != "127.0.0.1:2" || c.Pools[1].Routing.Strategy != "RANDOM" || c.Log != (Log{"warn", "json"}) {
		t.Errorf("%s", c)
	}
	if shared, ok, err := c.RedisConfig(); !ok || err != nil || shared.Addresses[0] != "redis:6379" {
		t.Errorf("redis: %+v, %v", shared, err)
	}
	if _, err = c.Override(Overrides{Redis: "redis://:s3cret@host"}); err == nil ||
		!strings.Contains(err.Error(), "--redis: is a URL, or has credentials in it: want host:port") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a URL with a password: %v", err)
	}
	_, err = c.Override(Overrides{Listen: "1", Strategy: "PREFIX_AWRE", Redis: "redis", LogLevel: "loud"})
	want := []string{
		`--listen: "1" is not an address: want host:port, or :port for every interface`,
		`--redis: "redis" is not an address: want host:port`,
		`--log-level: "loud" is not one of debug, info, warn, error`,
		`--strategy: "PREFIX_AWRE" is not one of RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_HASH, PREFIX_AWARE, LEAST_EXPECTED_TTFT: did you mean PREFIX_AWARE?`,
	}
	var got []string
	for _, e := range Each(err) {
		got = append(got, e.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	if _, _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); err != nil {
		t.Error(err)
	}
	if _, _, err := Load(filepath.Dir(path)); err == nil {
		t.Error("a directory was read as a file")
	}
	if err := os.Truncate(path, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), "bytes, at most") {
		t.Errorf("Load of a huge file: %v", err)
	}
}

func TestNilConfig(t *testing.T) {
	var c *Config
	if _, err := c.Validate(); err == nil {
		t.Error("nil is valid")
	}
	if _, err := c.Override(Overrides{}); err == nil {
		t.Error("nil can be overridden")
	}
	if c.String() != "" {
		t.Error("nil says something")
	}
}

// The admin port may be reached from other machines where something says who may use it, and the
// hash of a key may stand in the environment.
func TestAdminPortForOtherMachines(t *testing.T) {
	t.Setenv("WARMROUTE_ADMIN_KEY_SHA256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
	c, _ := mustParse(t, minimal+"admin_listen: ':9090'\nadmin_keys: [{name: ops, token_sha256: '${WARMROUTE_ADMIN_KEY_SHA256}'}]\n")
	if got := c.AdminKeys[0].TokenSHA256; got != os.Getenv("WARMROUTE_ADMIN_KEY_SHA256") {
		t.Errorf("the hash is %q", got)
	}
	dir := certificates(t)
	mustParse(t, minimal+"admin_listen: ':9090'\nadmin_tls: {cert_file: "+dir+"/own.pem, key_file: "+dir+"/key.pem, client_ca_file: "+dir+"/ca.pem}\n")
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "[::1]", "localhost"} {
		mustParse(t, minimal+"admin_listen: '"+host+":9090'\n")
	}
	if got := problems(t, minimal+"admin_listen: ':9090'\nadmin_tls: {cert_file: "+dir+"/own.pem, key_file: "+dir+"/key.pem}\n"); len(got) != 1 {
		t.Errorf("encrypted and open: %v", got)
	}
	_, warnings := mustParse(t, minimal+"metrics_without_key: true\n")
	if len(warnings) != 1 || !strings.Contains(warnings[0].String(), "metrics_without_key: the whole admin port is open without admin_keys") {
		t.Errorf("warnings %v", warnings)
	}
}
