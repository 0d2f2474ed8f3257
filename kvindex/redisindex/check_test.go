package redisindex

import (
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	gone := redistest.New(t) // never started
	admin := server.Client("right")
	run := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	run("ACL", "SETUSER", "reader", "on", ">x", "~*", "+@all", "-xadd")
	run("ACL", "SETUSER", "warmroute", "on", ">y", "~warmroute:*", "+@read", "+@write", "+@connection", "+@transaction", "+time", "+info") // as the manual has it
	if _, err := Check(t.Context(), Config{Addresses: []string{server.Addr}, Username: "warmroute", Password: "y"}); err != nil {
		t.Errorf("with the permissions that the manual asks for: %v", err)
	}
	good := Config{Addresses: []string{server.Addr}, Password: "right", Now: func() time.Time { return time.Now().Add(-time.Hour) }}
	found, err := Check(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if found.Version == "" || found.ClockOffset.Round(time.Minute) != time.Hour {
		t.Errorf("found %+v", found)
	}
	if len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "allkeys-lru") {
		t.Errorf("warnings: %q", found.Warnings)
	}
	if left := admin.DBSize(t.Context()).Val(); left != 0 {
		t.Errorf("%d keys are left behind", left)
	}
	for name, tc := range map[string]struct {
		config Config
		want   string
	}{
		"nobody there":   {Config{Addresses: []string{gone.Addr}}, "is it there"},
		"no password":    {Config{Addresses: []string{server.Addr}}, "redis.password"},
		"wrong password": {Config{Addresses: []string{server.Addr}, Password: "left"}, "redis.password"},
		"no permission":  {Config{Addresses: []string{server.Addr}, Username: "reader", Password: "x"}, "XADD: NOPERM"},
		"no sentinels":   {Config{Addresses: []string{gone.Addr}, SentinelMaster: "primary"}, `a primary named "primary"`},
		"no cluster":     {Config{Addresses: []string{server.Addr}, Password: "right", Cluster: true}, "cluster support disabled"},
		"no address":     {Config{}, "addresses: none"},
	} {
		_, err := Check(t.Context(), tc.config)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a line with %q", name, err, tc.want)
		}
	}
	run("REPLICAOF", "127.0.0.1", "1")
	if _, err := Check(t.Context(), good); err == nil || !strings.Contains(err.Error(), "it is a replica") {
		t.Errorf("a replica: %v", err)
	}
}
