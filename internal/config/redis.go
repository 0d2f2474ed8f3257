package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmroute/warmroute/kvindex/redisindex"
)

// Redis is where the index is shared by several routers, and kept across their restarts;
// [redisindex.Config] says more of each setting. Without addresses it is not.
type Redis struct {
	// Addresses are host:port of the server, of nodes of a cluster, or of sentinels.
	Addresses []string `yaml:"addresses,omitempty"`
	// Username and Password log in to the server. Default none.
	Username string `yaml:"username,omitempty"`
	Password Secret `yaml:"password,omitempty"`
	// DB is the number of the database. Default 0.
	DB int `yaml:"db,omitempty"`
	// SentinelMaster is the name under which the sentinels know the primary. Default:
	// the addresses are not of sentinels.
	SentinelMaster string `yaml:"sentinel_master,omitempty"`
	// SentinelUsername and SentinelPassword log in to the sentinels. Default none.
	SentinelUsername string `yaml:"sentinel_username,omitempty"`
	SentinelPassword Secret `yaml:"sentinel_password,omitempty"`
	// Cluster says that the addresses are of a cluster. Default false.
	Cluster bool `yaml:"cluster,omitempty"`
	// TLS is how connections are encrypted.
	TLS RedisTLS `yaml:"tls,omitempty"`
	// Namespace begins the names of all keys. Default warmroute.
	Namespace string `yaml:"namespace"`
	// TTL is how long a block is remembered that nobody uses. Default 1 h.
	TTL time.Duration `yaml:"ttl"`
}

// RedisTLS is how connections to Redis are encrypted.
type RedisTLS struct {
	// Enabled encrypts them. Default false.
	Enabled bool `yaml:"enabled,omitempty"`
	// CAFile has the certificates, in PEM, that sign the server's. Default: the system's.
	CAFile string `yaml:"ca_file,omitempty"`
	// CertFile and KeyFile are this router's own certificate and key, in PEM, where the
	// server wants one. Default none.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// ServerName is the name that the server's certificate must have. Default: the host of
	// its address.
	ServerName string `yaml:"server_name,omitempty"`
	// InsecureSkipVerify takes any certificate. Default false.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify,omitempty"`
}

// defaultRedis returns what absent keys fall back to.
func defaultRedis() Redis {
	d := redisindex.DefaultConfig()
	return Redis{Namespace: d.Namespace, TTL: d.TTL}
}

// RedisConfig returns how the index is shared; ok is false where it is not. The error is
// of a certificate that cannot be read any more.
func (c *Config) RedisConfig() (shared redisindex.Config, ok bool, err error) {
	r := c.Redis
	if len(r.Addresses) == 0 {
		return shared, false, nil
	}
	shared = r.config()
	if r.TLS.Enabled {
		if shared.TLS, err = r.TLS.config(); err != nil {
			err = fmt.Errorf("redis.tls.%w", err)
		}
	}
	return shared, true, err
}

// config returns the settings as the index names them, apart from TLS.
func (r Redis) config() redisindex.Config {
	return redisindex.Config{
		Addresses: r.Addresses,
		Username:  r.Username, Password: r.Password.Reveal(),
		DB:             r.DB,
		SentinelMaster: r.SentinelMaster, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		Cluster:   r.Cluster,
		Namespace: r.Namespace,
		TTL:       r.TTL,
	}
}

// config reads the certificates.
func (t RedisTLS) config() (*tls.Config, error) {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // an operator asked for it, and is warned
	}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile, maxPEM)
		if err != nil {
			return nil, &tlsError{"ca_file", err}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &tlsError{"ca_file", noCertificate(t.CAFile)}
		}
	}
	switch {
	case t.CertFile == "" && t.KeyFile == "":
	case t.CertFile == "":
		return nil, &tlsError{"cert_file", errors.New("is missing: key_file needs it")}
	case t.KeyFile == "":
		return nil, &tlsError{"key_file", errors.New("is missing: cert_file needs it")}
	default:
		own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, &tlsError{"cert_file", err}
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// redis checks how the index is shared.
func (v *validation) redis(r Redis) {
	if len(r.Addresses) == 0 && !v.given("redis.addresses") {
		if v.given("redis") && (r.Username != "" || r.Password != "" || r.SentinelMaster != "" || r.Cluster || r.TLS.Enabled) {
			v.fail("redis.addresses", "is missing: want a list of host:port")
		}
		return
	}
	for _, err := range Each(r.config().Validate()) {
		key, message, _ := strings.Cut(err.Error(), ": ")
		v.fail("redis."+key, "%s", message)
	}
	t := r.TLS
	if !t.Enabled {
		if t != (RedisTLS{}) {
			v.warn("redis.tls", "connections are not encrypted without enabled: true")
		}
		return
	}
	if _, err := t.config(); err != nil {
		if at, ok := errors.AsType[*tlsError](err); ok {
			v.fail("redis.tls."+at.key, "%v", at.err)
		}
	}
	if t.InsecureSkipVerify {
		v.warn("redis.tls.insecure_skip_verify", "any server's certificate is taken: whoever answers at the address can read and change the index")
	}
}
