package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/workload"
)

func progressWorkload() workload.DocsConfig {
	d := workload.DefaultDocsConfig()
	d.Documents, d.Duration = 100, 3*time.Minute
	return d
}

func TestProgressChangesNothing(t *testing.T) {
	c, d := smallConfig(1), progressWorkload()
	want := mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
	told := 0
	c.Progress = func(ended int) error {
		if ended < told {
			t.Errorf("%d requests have ended after %d had", ended, told)
		}
		told = ended
		return nil
	}
	got := mustRun(t, mustNew(t, c), workload.NewDocs(d, c.Seed))
	if told == 0 || told > got.Requests {
		t.Errorf("told of %d of %d requests", told, got.Requests)
	}
	if diff := cmp.Diff(want.Samples, got.Samples); diff != "" {
		t.Errorf("a run that is watched differs (-unwatched +watched):\n%s", diff)
	}
}

func TestProgressEndsTheRun(t *testing.T) {
	enough := errors.New("enough")
	c, d := smallConfig(1), progressWorkload()
	asked := 0
	c.Progress = func(int) error {
		if asked++; asked == 2 {
			return enough
		}
		return nil
	}
	result, err := mustNew(t, c).Run(workload.NewDocs(d, c.Seed))
	if result != nil || !errors.Is(err, enough) || asked != 2 {
		t.Errorf("result %v, error %v, asked %d times", result, err, asked)
	}
}

func TestPrefilled(t *testing.T) {
	r := Result{Backends: []int{2, 1, 0}, Samples: []Sample{
		{Backend: 0, Prompt: 100, Cached: 80},
		{Backend: 0, Prompt: 100, Cached: 90},
		{Backend: 1, Prompt: 100, Cached: 40},
	}}
	if diff := cmp.Diff([]int{30, 60, 0}, r.Prefilled()); diff != "" {
		t.Errorf("prefilled tokens (-want +got):\n%s", diff)
	}
}
