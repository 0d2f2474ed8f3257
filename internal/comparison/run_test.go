package comparison

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/enginesim"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// smallDocs is half a minute of questions on a few documents.
func smallDocs(t *testing.T) *workload.Workload {
	t.Helper()
	c := workload.DefaultDocsConfig()
	c.Documents, c.DocumentTokens, c.Rate, c.Duration = 30, 2000, 4, 30*time.Second
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// smallJobs are a run for each strategy and placement, in a world in which much goes wrong.
func smallJobs(t *testing.T) []Job {
	t.Helper()
	w := smallDocs(t)
	fleet := replay.Config{
		Backends: 3, Engine: enginesim.Config{Profile: replay.ReferenceProfile(20_000)}, Router: router.DefaultConfig(),
		ScrapeEvery: scrapeEvery, StatedCapacity: 1, Noise: replay.DefaultNoise(), Seed: 7,
	}
	var jobs []Job
	for _, name := range Strategies() {
		jobs = append(jobs, Job{Workload: w, Fleet: Choose(fleet, name)})
	}
	return jobs
}

func untold(int) {}

// Results stand in the order of their jobs, each the same whether runs go one after the
// other or side by side.
func TestRunIsIndependentOfProcessors(t *testing.T) {
	jobs := smallJobs(t)
	play := func(processors int) []*replay.Result {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		results := make([]*replay.Result, len(jobs))
		if err := Run(t.Context(), jobs, untold, func(i int, r *replay.Result) { results[i] = r }); err != nil {
			t.Fatal(err)
		}
		return results
	}
	alone, together := play(1), play(4)
	for i, name := range Strategies() {
		if diff := cmp.Diff(alone[i].Samples, together[i].Samples); diff != "" {
			t.Errorf("%s differs (-alone +together):\n%s", name, diff)
		}
	}
	if cmp.Equal(alone[0].Samples, alone[3].Samples) {
		t.Error("two strategies are one")
	}
}

func TestRunTellsEveryRequest(t *testing.T) {
	jobs := smallJobs(t)[:2]
	var told, asked atomic.Int64
	err := Run(t.Context(), jobs, func(n int) { told.Add(int64(n)) }, func(_ int, r *replay.Result) { asked.Add(int64(r.Requests)) })
	if err != nil || told.Load() != asked.Load() || told.Load() == 0 {
		t.Errorf("told of %d of %d requests, %v", told.Load(), asked.Load(), err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	taken := 0
	err := Run(ctx, smallJobs(t), func(int) { cancel() }, func(int, *replay.Result) { taken++ })
	if !errors.Is(err, context.Canceled) || taken > 0 {
		t.Errorf("error %v, %d results", err, taken)
	}
}

func TestRunFails(t *testing.T) {
	jobs := smallJobs(t)
	jobs[1].Fleet.Backends = 0
	if err := Run(t.Context(), jobs, untold, func(int, *replay.Result) {}); err == nil || !strings.Contains(err.Error(), "backends") {
		t.Errorf("a fleet without engines: %v", err)
	}
}

func TestRunRefusesWhatFitsNowhere(t *testing.T) {
	jobs := smallJobs(t)[:1]
	jobs[0].Fleet.Engine.KVTokens = 1024
	err := Run(t.Context(), jobs, untold, func(int, *replay.Result) {})
	if want := "of 120 requests fits an engine's KV cache of 1024 tokens"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestLimit(t *testing.T) {
	chat := workload.DefaultChatConfig()
	chat.Rate, chat.Duration = 2, 3*time.Minute
	talk, err := chat.Workload()
	if err != nil {
		t.Fatal(err)
	}
	users := workload.DefaultDocsConfig()
	users.Users, users.Duration = 3, 5*time.Minute
	closed, err := users.Workload()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*workload.Workload{smallDocs(t), talk, closed} {
		for _, limit := range []int{1, 2, 40} {
			job := smallJobs(t)[0]
			job.Workload, job.Limit = w, limit
			job.Fleet.Noise = replay.Noise{}
			r, err := job.play(t.Context(), untold)
			if err != nil || r.Requests != limit {
				t.Errorf("%s: %v requests, want %d (%v)", w.Name, r.Requests, limit, err)
			}
		}
	}
}

func ExampleRun() {
	docs := workload.DefaultDocsConfig()
	docs.Documents, docs.DocumentTokens, docs.Duration = 30, 2000, 2*time.Minute
	asked, err := docs.Workload()
	if err != nil {
		fmt.Println(err)
		return
	}
	fleet := replay.Config{Backends: 2, Engine: enginesim.Config{Profile: replay.ReferenceProfile(50_000)}, Router: router.DefaultConfig()}
	jobs := []Job{
		{Workload: asked, Fleet: Choose(fleet, router.Random)},
		{Workload: asked, Fleet: Choose(fleet, router.PrefixAware)},
	}
	rates := make([]float64, len(jobs))
	err = Run(context.Background(), jobs, func(int) {}, func(i int, r *replay.Result) { rates[i] = r.HitRate() })
	fmt.Println(rates[1] > rates[0], err)
	// Output: true <nil>
}
