package config

import (
	"crypto/sha256"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/health"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/scrape"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/router"
)

// Version is the version of the file format.
const Version = 1

// Config is everything that a router is configured with. [Default] is where every
// reading of a file starts from.
type Config struct {
	// Version is the version of the file format, always 1. It must be in the file.
	Version int `yaml:"version"`
	// Listen is the address of the data plane, host:port. Default ":8080".
	Listen string `yaml:"listen"`
	// AdminListen is the address of the admin port. Default "127.0.0.1:9090": what
	// it shows is for operators.
	AdminListen string `yaml:"admin_listen"`
	// TLS encrypts the data plane, and AdminTLS the admin port. Default: they are not.
	TLS      TLS `yaml:"tls,omitempty"`
	AdminTLS TLS `yaml:"admin_tls,omitempty"`
	// Keys are who may use the data plane. Default none: everybody may.
	Keys []Key `yaml:"keys,omitempty"`
	// AdminKeys are who may use the admin port. Default none: whoever reaches it may.
	AdminKeys []AdminKey `yaml:"admin_keys,omitempty"`
	// MetricsWithoutKey leaves /metrics of the admin port to everybody. Default false.
	MetricsWithoutKey bool `yaml:"metrics_without_key,omitempty"`
	// Pools are the groups of backends; there must be one.
	Pools []Pool `yaml:"pools"`
	// Limits bound what requests may take of this process.
	Limits Limits `yaml:"limits"`
	// Timeouts bound what may take how long.
	Timeouts Timeouts `yaml:"timeouts"`
	// Scrape is how the engines' own metrics are read.
	Scrape Scrape `yaml:"scrape"`
	// Health is how engines are probed.
	Health Health `yaml:"health"`
	// Redis is where several routers share the index.
	Redis Redis `yaml:"redis"`
	// InjectUsage asks engines for usage on streams whose client did not, and takes
	// the extra chunk out again. Default true.
	InjectUsage bool `yaml:"inject_usage"`
	// DecisionHeaders adds the x-warmroute-… headers to answers. Default true.
	DecisionHeaders bool `yaml:"decision_headers"`
	// AllowBackendPin lets a request name its backend in x-warmroute-backend.
	// Default false.
	AllowBackendPin bool `yaml:"allow_backend_pin"`
	// ForwardCredentials sends the client's Authorization and x-api-key on to the
	// engines. Default true.
	ForwardCredentials bool `yaml:"forward_credentials"`
	// KeySeed separates this fleet's block keys from those of any other. All
	// replicas of a router must have the same. Default none.
	KeySeed Secret `yaml:"key_seed,omitempty"`
	// Log is what is logged, and how.
	Log Log `yaml:"log"`
	// RequestLog is where each request is written for replay.
	RequestLog RequestLog `yaml:"request_log"`

	file    string
	content [sha256.Size]byte // hash of the file's content
	lines   map[string]int    // of what the file names, by path
	flags   map[string]string // that gave a value in place of the file, by path
}

// Key is what somebody may use the data plane with: an access key, with which AWS's
// clients sign their requests.
type Key struct {
	// Name is the key's name in errors; unique.
	Name string `yaml:"name"`
	// TokenSHA256 is the SHA-256 hash, in hex digits, of a bearer token.
	TokenSHA256 string `yaml:"token_sha256,omitempty"`
	// AccessKeyID is the public part of an access key.
	AccessKeyID string `yaml:"access_key_id,omitempty"`
	// Secret is the other part.
	Secret Secret `yaml:"secret,omitempty"`
	// Pools are the pools that the key is good for. Default all.
	Pools []string `yaml:"pools,omitempty"`
	// Tenant is the tenant id of all its requests, whatever they say themselves. Default
	// none: it is theirs to say.
	Tenant string `yaml:"tenant,omitempty"`
	// RequestsPerSecond bounds its requests; twice as many may come at once. Default 0: as
	// many as come.
	RequestsPerSecond float64 `yaml:"requests_per_second,omitempty"`
	// TokensPerMinute bounds the tokens of its prompts and their answers; a minute's worth
	// may come at once. Default 0: as many as come.
	TokensPerMinute int `yaml:"tokens_per_minute,omitempty"`
}

// AdminKey is what an operator may use the admin port with.
type AdminKey struct {
	// Name is the key's name in the log; unique.
	Name string `yaml:"name"`
	// TokenSHA256 is the SHA-256 hash, in hex digits, of a bearer token.
	TokenSHA256 string `yaml:"token_sha256"`
}

// Pool is a group of backends that serve the same models.
type Pool struct {
	// Name is the pool's name in metrics, logs and errors; unique.
	Name string `yaml:"name"`
	// Models are the models the pool serves. Default none: the pool serves what its
	// backends say they serve.
	Models []Model `yaml:"models,omitempty"`
	// UpstreamKey is the API key that engines want: requests, probes and scrapes carry it as a
	// bearer token, in the place of what a client sent. Default none.
	UpstreamKey Secret `yaml:"upstream_key,omitempty"`
	// ForwardRank sends a client's X-Data-Parallel-Rank on to the engines. Default false: the
	// router chooses among ranks, or there are none.
	ForwardRank bool `yaml:"forward_rank,omitempty"`
	// Routing is how requests are spread over the backends.
	Routing Routing `yaml:"routing"`
	// Tuning is automatic mode. Default off.
	Tuning Tuning `yaml:"tuning"`
	// Backends are the engines; there must be one, or a source of them in Discovery.
	Backends []Backend `yaml:"backends,omitempty"`
	// Discovery is where more of them are found. Default nowhere.
	Discovery Discovery `yaml:"discovery,omitempty"`
	// Ejection is when failures take a backend out of rotation.
	Ejection Ejection `yaml:"ejection"`
	// SageMakerEndpoints are the names of the SageMaker endpoints that the pool is a
	// variant of. Default none: it has no part in /endpoints/….
	SageMakerEndpoints []string `yaml:"sagemaker_endpoints,omitempty"`
	// Variant is the pool's name as a production variant of its endpoints. Default the
	// pool's name.
	Variant string `yaml:"variant,omitempty"`
	// VariantWeight is its share of the requests that name no variant, relative to the
	// other variants. 0 leaves it to those that do. Default 1.
	VariantWeight float64 `yaml:"variant_weight"`
	// InferenceComponent makes the pool an inference component of its endpoints, which
	// requests then must name. Default none.
	InferenceComponent string `yaml:"inference_component,omitempty"`
}

// Model is a model that a pool serves: a name, or a name and what the engines call
// it.
type Model struct {
	// Name is what clients ask for.
	Name string `yaml:"name"`
	// Served is what the engines call it. Default the name.
	Served string `yaml:"served,omitempty"`
	// Adapter says that it is a LoRA adapter, which engines may load when they are asked for
	// it and do not list before. One that an engine lists as an adapter need not be named.
	Adapter bool `yaml:"adapter,omitempty"`
}

// Routing is how requests are spread over a pool's backends; [router.Config] says
// what each setting means, and what it may be.
type Routing struct {
	Strategy             string              `yaml:"strategy"`
	PrefixLength         int                 `yaml:"prefix_length"`
	ConcurrencyThreshold int                 `yaml:"concurrency_threshold"`
	MinMatchRatio        float64             `yaml:"min_match_ratio"`
	LoadFactor           float64             `yaml:"load_factor"`
	QueueGuard           float64             `yaml:"queue_guard"`
	W                    float64             `yaml:"w"`
	OnSaturation         router.OnSaturation `yaml:"on_saturation"`
	PromptCacheKey       router.CacheKeyUse  `yaml:"prompt_cache_key"`
	NativeKey            router.NativeKey    `yaml:"native_key"`
	Replicas             int                 `yaml:"replicas"`
	BlockBytes           int                 `yaml:"block_bytes"`
}

// Tuning is whether advice on prefix_length and concurrency_threshold is applied by itself;
// [tuning.Rules] says how.
type Tuning struct {
	// Automatic turns it on. Default false.
	Automatic bool `yaml:"automatic"`
	// Observation is how long a step is watched before it is kept, and the longest time for which
	// what it costs is borne. Default [tuning.DefaultObservation].
	Observation time.Duration `yaml:"observation"`
}

// Rules returns the rules of automatic mode, nil where it is off.
func (t Tuning) Rules() *tuning.Rules {
	if !t.Automatic {
		return nil
	}
	return &tuning.Rules{Observation: t.Observation}
}

// Backend is one engine.
type Backend struct {
	// URL is the engine's base URL.
	URL string `yaml:"url"`
	// Weight is its share of load relative to the others. Default 1.
	Weight float64 `yaml:"weight"`
	// ConcurrencyThreshold is its own threshold. Default the pool's.
	ConcurrencyThreshold int `yaml:"concurrency_threshold,omitempty"`
	// DataParallelRanks makes the URL that many backends, one for each rank, which
	// is sent as X-data-parallel-rank. Default 0: the URL is one cache.
	DataParallelRanks int `yaml:"data_parallel_ranks,omitempty"`
}

// Ejection is when failures take a backend out of rotation; [backends.Ejection]
// says what each setting means.
type Ejection struct {
	Failures   int           `yaml:"failures"`
	Base       time.Duration `yaml:"base"`
	Max        time.Duration `yaml:"max"`
	MaxShare   float64       `yaml:"max_share"`
	SlowStart  time.Duration `yaml:"slow_start"`
	MaxCooling time.Duration `yaml:"max_cooling"`
}

// Limits bound what requests may take of this process.
type Limits struct {
	// BodyBytes bounds one request body, also once decompressed. Default 64 MiB.
	BodyBytes Bytes `yaml:"body_bytes"`
	// BodiesInFlightBytes bounds all request bodies held at one time; what exceeds it
	// is answered 503. Default 1 GiB.
	BodiesInFlightBytes Bytes `yaml:"bodies_in_flight_bytes"`
	// SageMakerBodyBytes bounds one request body on SageMaker paths, also once
	// decompressed. Default 25 MiB, SageMaker's own limit.
	SageMakerBodyBytes Bytes `yaml:"sagemaker_body_bytes"`
	// HeaderBytes bounds the headers of one request. Default 64 KiB.
	HeaderBytes Bytes `yaml:"header_bytes"`
	// IndexBlocks bounds the entries of the index over all backends. Default
	// 4,194,304, about 600 MB.
	IndexBlocks int `yaml:"index_blocks"`
	// MaxQueued bounds the requests of one pool that wait for a slot, where
	// on_saturation is queue. Default 1,024.
	MaxQueued int `yaml:"max_queued"`
	// QueueShare is the part of MaxQueued that the requests of one key's tenant may have, and of
	// a pool's slots that it may hold by open decisions of the routing service. Default 0.5.
	QueueShare float64 `yaml:"queue_share"`
	// RecentRequestsBytes bounds the memory that the newest requests are remembered in,
	// hashes and lengths, for advice to rest on. 0 remembers none. Default 64 MiB.
	RecentRequestsBytes Bytes `yaml:"recent_requests_bytes"`
}

// Timeouts bound what may take how long; [transport.Config] says more of the first
// three.
type Timeouts struct {
	// Connect bounds the making of a connection to an engine. Default 3 s.
	Connect time.Duration `yaml:"connect"`
	// FirstByte bounds the wait for an answer's headers. An answer that is not
	// streamed sends them only when it is done. Default 20 min.
	FirstByte time.Duration `yaml:"first_byte"`
	// Idle bounds the silence within an answer. Default 5 min.
	Idle time.Duration `yaml:"idle"`
	// Queue bounds the wait for a slot, where on_saturation is queue. Default 30 s.
	Queue time.Duration `yaml:"queue"`
	// ReadHeader bounds how long a client may take to send its headers. Default
	// 10 s.
	ReadHeader time.Duration `yaml:"read_header"`
	// ShutdownDelay is how long requests are still taken after the signal to stop,
	// while readiness says 503 and load balancers look away. Default 0.
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`
	// ShutdownGrace is how long running requests then have to finish. Default 30 s.
	ShutdownGrace time.Duration `yaml:"shutdown_grace"`
}

// Scrape is how the engines' own metrics are read; [scrape.Config] says more of the
// last three.
type Scrape struct {
	// Enabled reads them. Without them the router works on its own counts and on what
	// answers report. Default true.
	Enabled bool `yaml:"enabled"`
	// Interval is the time from one look at an engine to the next. Default 5 s.
	Interval time.Duration `yaml:"interval"`
	// Timeout bounds one look. Default 2 s.
	Timeout time.Duration `yaml:"timeout"`
	// Path is where the metrics are, below a backend's URL. Default /metrics.
	Path string `yaml:"path"`
}

// Health is how engines are probed; [health.ProbeConfig] says more of all but the first.
type Health struct {
	// Enabled probes them. Without probes, requests that fail take a backend out of
	// rotation. Default true.
	Enabled bool `yaml:"enabled"`
	// Path is where engines say whether they can work. Default /health.
	Path string `yaml:"path"`
	// Interval is the time from one probe to the next. Default 5 s.
	Interval time.Duration `yaml:"interval"`
	// Timeout bounds one probe. Default 5 s.
	Timeout time.Duration `yaml:"timeout"`
	// Failures is how many probes in a row must get no answer. Default 3.
	Failures int `yaml:"failures"`
	// FrozenAfter is how long a backend may send nothing of the streams that it has begun.
	// Default 1 min.
	FrozenAfter time.Duration `yaml:"frozen_after"`
}

// Log is what is logged, and how.
type Log struct {
	// Level is the lowest level logged: debug, info, warn or error. Default info.
	Level string `yaml:"level"`
	// Format is text or json. Default text.
	Format string `yaml:"format"`
}

// RequestLog is where each request is written for replay.
type RequestLog struct {
	// Path is the file. Default none: nothing is written.
	Path string `yaml:"path,omitempty"`
	// MaxBytes is how large the file may become before it is put aside as Path.1.
	// Default 256 MiB.
	MaxBytes Bytes `yaml:"max_bytes"`
}

// Default returns the configuration that an absent key falls back to. It lacks
// only a pool.
func Default() *Config {
	t, s, h := transport.DefaultConfig(), scrape.DefaultConfig(), health.DefaultProbeConfig()
	return &Config{
		Version:     Version,
		Listen:      ":8080",
		AdminListen: "127.0.0.1:9090",
		Limits: Limits{
			BodyBytes:           64 << 20,
			BodiesInFlightBytes: 1 << 30,
			SageMakerBodyBytes:  25 << 20,
			HeaderBytes:         64 << 10,
			IndexBlocks:         kvindex.DefaultMaxBlocks,
			MaxQueued:           1024,
			QueueShare:          0.5,
			RecentRequestsBytes: recent.DefaultBytes,
		},
		Timeouts: Timeouts{
			Connect:       t.Connect,
			FirstByte:     t.FirstByte,
			Idle:          t.Idle,
			Queue:         30 * time.Second,
			ReadHeader:    10 * time.Second,
			ShutdownGrace: 30 * time.Second,
		},
		Scrape: Scrape{Enabled: true, Interval: s.Interval, Timeout: s.Timeout, Path: s.Path},
		Health: Health{
			Enabled: true, Path: h.Path, Interval: h.Interval, Timeout: h.Timeout, Failures: h.Failures, FrozenAfter: h.FrozenAfter,
		},
		Redis:              defaultRedis(),
		InjectUsage:        true,
		DecisionHeaders:    true,
		ForwardCredentials: true,
		Log:                Log{Level: "info", Format: "text"},
		RequestLog:         RequestLog{MaxBytes: 256 << 20},
	}
}

// DefaultPool returns what the absent keys of a pool fall back to. It lacks a name
// and backends.
func DefaultPool() Pool {
	r, e := router.DefaultConfig(), backends.DefaultEjection()
	return Pool{
		Routing: Routing{
			Strategy:             r.Strategy,
			PrefixLength:         r.PrefixLength,
			ConcurrencyThreshold: r.ConcurrencyThreshold,
			MinMatchRatio:        r.MinMatchRatio,
			LoadFactor:           r.LoadFactor,
			QueueGuard:           r.QueueGuard,
			W:                    r.W,
			OnSaturation:         r.OnSaturation,
			PromptCacheKey:       r.PromptCacheKey,
			NativeKey:            r.NativeKey,
			Replicas:             r.Replicas,
			BlockBytes:           r.BlockBytes,
		},
		Tuning:        Tuning{Observation: tuning.DefaultObservation},
		Ejection:      Ejection(e),
		VariantWeight: 1,
	}
}

// setDefaults implements defaulter.
func (p *Pool) setDefaults() { *p = DefaultPool() }

// setDefaults implements defaulter.
func (b *Backend) setDefaults() { b.Weight = 1 }
