package config

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmroute/warmroute/internal/certtest"
	"github.com/warmroute/warmroute/kvindex/redisindex"
)

// certificates writes ca.pem, own.pem and key.pem and returns the directory they are in.
func certificates(t testing.TB) string {
	t.Helper()
	authority, dir := certtest.New(t, "tests"), t.TempDir()
	own := authority.Issue("own", time.Now().Add(time.Hour))
	certtest.Write(t, dir, "ca.pem", authority.PEM)
	certtest.Write(t, dir, "own.pem", own.Certificate)
	certtest.Write(t, dir, "key.pem", own.Key)
	return dir
}

func TestRedisConfig(t *testing.T) {
	shared, ok, err := parseEverything(t).RedisConfig()
	if !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	want := redisindex.Config{
		Addresses: []string{"s1:26379", "s2:26379"}, Username: "warmroute", Password: "s3cret-REDIS", DB: 3,
		SentinelMaster: "primary", SentinelUsername: "sentinel", SentinelPassword: "xs3cret-REDIS",
		Namespace: "fleet", TTL: 2 * time.Hour,
	}
	if diff := cmp.Diff(want, shared, cmpopts.IgnoreFields(redisindex.Config{}, "TLS")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c := shared.TLS; c == nil || c.ServerName != "redis" || c.RootCAs == nil || len(c.Certificates) != 1 || c.InsecureSkipVerify || c.MinVersion < tls.VersionTLS12 {
		t.Errorf("TLS: %+v", c)
	}
	c, _ := mustParse(t, minimal+"redis: {addresses: ['redis:6379'], cluster: true}\n")
	shared, ok, err = c.RedisConfig()
	want = redisindex.DefaultConfig()
	want.Addresses, want.Cluster = []string{"redis:6379"}, true
	if diff := cmp.Diff(want, shared); !ok || err != nil || diff != "" {
		t.Errorf("%v, %v (-want +got)\n%s", ok, err, diff)
	}
	if _, ok, _ := first(mustParse(t, minimal)).RedisConfig(); ok {
		t.Error("the index is shared without a word of it")
	}
}

func TestRedisTLSWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"redis: {addresses: ['a:1'], tls: {server_name: redis}}\n":                        "redis.tls: connections are not encrypted without enabled: true",
		"redis: {addresses: ['a:1'], tls: {enabled: true, insecure_skip_verify: true}}\n": "redis.tls.insecure_skip_verify: any server's certificate is taken",
	} {
		if _, warnings := mustParse(t, minimal+text); len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) {
			t.Errorf("%s: warnings %v, want one with %q", text, warnings, want)
		}
	}
}
