package deploy

import (
	"context"
	"net"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
)

// tryRedis starts Redis by a command of the files, and looks whether it is as
// docs/operations/redis.md says.
func tryRedis(t *testing.T, command []string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Log("redis-server is not there to be started")
		return
	}
	if command[0] != "redis-server" {
		t.Fatalf("the command is %v", command)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append(command[1:len(command):len(command)], "--bind", "127.0.0.1", "--port", port(addr))...)
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	client := redis.NewClient(&redis.Options{Addr: addr, Password: secrets["REDIS_PASSWORD"]})
	defer client.Close()
	await(t, "Redis answers", func() bool { return client.Ping(t.Context()).Err() == nil })
	for key, want := range map[string]string{
		"maxmemory-policy": "noeviction", "maxmemory": "536870912", "save": "", "appendonly": "no", "lazyfree-lazy-expire": "yes",
	} {
		got, err := client.ConfigGet(t.Context(), key).Result()
		if err != nil || got[key] != want {
			t.Errorf("%s is %q, %v, want %q", key, got[key], err, want)
		}
	}
}
