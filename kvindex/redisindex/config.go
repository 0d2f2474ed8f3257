package redisindex

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The bounds of a single exchange with Redis. They are short because nobody waits for it
// and a server that is slower than that is as good as gone.
const (
	dialTimeout  = 200 * time.Millisecond
	replyTimeout = 500 * time.Millisecond
	poolTimeout  = 50 * time.Millisecond
)

// maxConnections bounds the connections to one server for what is answered at once, and
// maxStreams those that wait for news: each pool's stream has one. Only those are made that
// are needed.
const (
	maxConnections = 64
	maxStreams     = 4096
)

// Config is where Redis is and what is kept there.
type Config struct {
	// Addresses are host:port of the server; of several nodes of a cluster; or of the
	// sentinels, where SentinelMaster is set.
	Addresses []string
	// Username and Password log in to the server. Default: none.
	Username, Password string
	// DB is the number of the database; 0 in a cluster.
	DB int
	// SentinelMaster is the name under which the sentinels know the primary. Default:
	// Addresses are of servers.
	SentinelMaster string
	// SentinelUsername and SentinelPassword log in to the sentinels. Default: none.
	SentinelUsername, SentinelPassword string
	// Cluster says that the servers are a cluster. Default false.
	Cluster bool
	// TLS encrypts the connections. Default: they are not.
	TLS *tls.Config
	// Namespace is what the names of all keys begin with; fleets that share a server need
	// different ones. Default "warmroute".
	Namespace string
	// TTL is how long a block is remembered that nobody uses, and how long the keys of a
	// fleet that is gone stay. Default 1 h.
	TTL time.Duration
	// Logger gets what operators should know. Default: it is discarded.
	Logger *slog.Logger
	// Now is this machine's clock. Default time.Now.
	Now func() time.Time
}

// DefaultConfig returns what absent settings fall back to. It lacks an address.
func DefaultConfig() Config {
	return Config{Namespace: "warmroute", TTL: time.Hour}
}

// MinTTL is the shortest [Config.TTL].
const MinTTL = time.Minute

// withDefaults fills in what is absent.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Namespace == "" {
		c.Namespace = d.Namespace
	}
	if c.TTL == 0 {
		c.TTL = d.TTL
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate checks what can be checked without asking anybody. Each error that it joins
// begins with the name of its setting.
func (c Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Addresses) == 0 {
		fail("addresses: none is given: want host:port")
	}
	for i, address := range c.Addresses {
		host, port, err := net.SplitHostPort(address)
		switch {
		case strings.ContainsAny(address, "@/"): // not shown: there may be a password in it
			fail("addresses[%d]: is a URL, or has credentials in it: want host:port, and username, password, db and tls as settings of their own", i)
		case err != nil || host == "" || port == "":
			fail("addresses[%d]: %q is not an address: want host:port", i, address)
		}
	}
	if len(c.Addresses) > 1 && !c.Cluster && c.SentinelMaster == "" {
		fail("addresses: there are %d: say what they are with cluster: true, or with sentinel_master", len(c.Addresses))
	}
	if c.Cluster && c.SentinelMaster != "" {
		fail("cluster: a cluster has no sentinels: leave out cluster or sentinel_master")
	}
	if c.Cluster && c.DB != 0 {
		fail("db: %d: a cluster has only database 0", c.DB)
	}
	if c.DB < 0 {
		fail("db: %d is below 0", c.DB)
	}
	if c.SentinelMaster == "" && (c.SentinelUsername != "" || c.SentinelPassword != "") {
		fail("sentinel_master: is missing: credentials for sentinels need it")
	}
	if c.Namespace == "" || strings.ContainsAny(c.Namespace, "{} \t\r\n") {
		fail("namespace: %q: want text without spaces and braces", c.Namespace)
	}
	if c.TTL < MinTTL {
		fail("ttl: %v is below %v", c.TTL, MinTTL)
	}
	return errors.Join(errs...)
}

// newClient connects to what is configured, with no more than so many connections to one
// server. It does not wait for an answer.
func (c Config) newClient(connections int) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            c.Addresses,
		Username:         c.Username,
		Password:         c.Password,
		DB:               c.DB,
		MasterName:       c.SentinelMaster,
		SentinelUsername: c.SentinelUsername,
		SentinelPassword: c.SentinelPassword,
		IsClusterMode:    c.Cluster,
		TLSConfig:        c.TLS,

		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		MaxRetries:            -1,
		ReadTimeout:           replyTimeout,
		WriteTimeout:          replyTimeout,
		ContextTimeoutEnabled: true,
		PoolTimeout:           poolTimeout,
		PoolSize:              connections,
		PipelinePoolSize:      -1,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}
