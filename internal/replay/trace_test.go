//go:build !race

// Hours of a fleet in virtual time, in one goroutine: the race detector would make minutes
// of seconds and have nothing to see.

package replay

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// TestMooncake replays the public Mooncake hour. WARMROUTE_TRACES names the directory with
// the trace.
func TestMooncake(t *testing.T) {
	requests := conversation(t, 1)
	var plays []*play
	for _, strategy := range []string{router.Random, router.PrefixAware, router.LeastExpectedTTFT} {
		c := conversationConfig()
		c.Router.Strategy = strategy
		plays = append(plays, &play{name: strategy, config: c, source: func() workload.Source { return workload.NewBlockTrace(requests, 512) }})
	}
	playAll(t, plays...)
	t.Log(Header)
	for _, p := range plays {
		t.Logf("%s  %s", p.result.Row(), p.name)
		if p.result.Answered != len(requests) {
			t.Errorf("%d of %d answered", p.result.Answered, len(requests))
		}
	}
}

// conversationConfig is seven engines of a million tokens, with blocks as in the trace.
func conversationConfig() Config {
	return Config{
		Backends: 7, Engine: enginesim.Config{Profile: ReferenceProfile(1_000_000), BlockSize: 512},
		Router: router.DefaultConfig(), ScrapeEvery: 5 * time.Second, StatedCapacity: 1, Seed: 1,
	}
}

// conversation is the Mooncake conversation trace, its times divided by load. Without the
// trace the test is skipped.
func conversation(t *testing.T, load float64) []workload.BlockRequest {
	t.Helper()
	dir := os.Getenv("WARMROUTE_TRACES")
	if dir == "" {
		t.Skip("WARMROUTE_TRACES is not set")
	}
	requests := readMooncake(t, filepath.Join(dir, "mooncake_conversation_full.jsonl.gz"))
	for i := range requests {
		requests[i].At = time.Duration(float64(requests[i].At) / load)
	}
	return requests
}

func readMooncake(t *testing.T, path string) []workload.BlockRequest {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var out []workload.BlockRequest
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			Timestamp    float64  `json:"timestamp"`
			InputLength  int      `json:"input_length"`
			OutputLength int      `json:"output_length"`
			HashIDs      []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		// Arrivals come in ticks of three seconds.
		at := time.Duration(r.Timestamp*float64(time.Millisecond)) + time.Duration(rng.Float64()*float64(3*time.Second))
		out = append(out, workload.BlockRequest{At: at, PromptTokens: r.InputLength, OutputTokens: r.OutputLength, Blocks: r.HashIDs})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(out, func(a, b workload.BlockRequest) int { return int(min(max(a.At-b.At, -1), 1)) })
	return out
}
