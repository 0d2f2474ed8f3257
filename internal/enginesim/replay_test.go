package enginesim

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMooncakeReplay replays the public Mooncake hour over seven engines, round
// robin, in virtual time, and prints what it took. WARMROUTE_TRACES names the
// directory with the trace.
func TestMooncakeReplay(t *testing.T) {
	dir := os.Getenv("WARMROUTE_TRACES")
	if dir == "" || testing.Short() {
		t.Skip("WARMROUTE_TRACES is not set")
	}
	requests := readMooncake(t, filepath.Join(dir, "mooncake_conversation_full.jsonl.gz"))
	profile, err := ProfileByName("llama-70b-8xh100")
	if err != nil {
		t.Fatal(err)
	}
	engines := make([]*Engine, 7)
	for i := range engines {
		if engines[i], err = New(Config{Profile: profile, BlockSize: 512}); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	for i, r := range requests {
		now := time.Duration(r.Timestamp) * time.Millisecond
		e := engines[i%len(engines)]
		for at, ok := e.NextStep(); ok && at <= now; at, ok = e.NextStep() {
			e.Step(at)
		}
		req := Request{PromptTokens: r.InputLength, OutputTokens: r.OutputLength}
		req.Blocks = r.HashIDs[:min(len(r.HashIDs), r.InputLength/512)]
		if _, err := e.Submit(now, req); err != nil {
			t.Fatal(err)
		}
	}
	var sum Counters
	for _, e := range engines {
		drain(e)
		c := e.Counters()
		sum.Steps += c.Steps
		sum.PromptTokens += c.PromptTokens
		sum.PromptTokensCached += c.PromptTokensCached
		sum.Finished[FinishStop] += c.Finished[FinishStop]
	}
	took := time.Since(start)
	if got := sum.Finished[FinishStop]; got != int64(len(requests)) {
		t.Errorf("%d of %d requests finished", got, len(requests))
	}
	t.Logf("%d requests, %d M prompt tokens, %.1f %% cached, %d steps in %s (%.0f steps/s)",
		len(requests), sum.PromptTokens/1e6, 100*float64(sum.PromptTokensCached)/float64(sum.PromptTokens),
		sum.Steps, took.Round(time.Millisecond), float64(sum.Steps)/took.Seconds())
}

type mooncakeRequest struct {
	Timestamp    int64     `json:"timestamp"`
	InputLength  int       `json:"input_length"`
	OutputLength int       `json:"output_length"`
	HashIDs      []BlockID `json:"hash_ids"`
}

func readMooncake(t *testing.T, path string) []mooncakeRequest {
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
	var out []mooncakeRequest
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r mooncakeRequest
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
