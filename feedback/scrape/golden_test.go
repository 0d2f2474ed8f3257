package scrape

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

var update = flag.Bool("update", false, "write the expected results anew; commit them only if you can explain the change")

// golden is what is expected of a page.
type golden struct {
	// Unknown is why the page is of no use.
	Unknown string `json:",omitempty"`
	// Engine is what it says as a whole, Ranks what it says of each rank that it tells
	// apart if there are several.
	Engine *said            `json:",omitempty"`
	Ranks  map[string]*said `json:",omitempty"`
}

// said is an engine state without what was not said.
type said struct {
	Engine         string
	Running        *int     `json:",omitempty"`
	Waiting        *int     `json:",omitempty"`
	KVUsage        *float64 `json:",omitempty"`
	Queries        *float64 `json:",omitempty"`
	Hits           *float64 `json:",omitempty"`
	PromptTokens   *float64 `json:",omitempty"`
	CapacityTokens int      `json:",omitempty"`
	BlockTokens    int      `json:",omitempty"`
	CachingOff     bool     `json:",omitempty"`
	Asleep         *bool    `json:",omitempty"`
	Adapters       []string `json:",omitempty"`
	MaxAdapters    int      `json:",omitempty"`
	Started        float64  `json:",omitempty"`
}

func say(s feedback.EngineState) *said {
	out := &said{
		Engine: s.Engine, CapacityTokens: s.CapacityTokens, BlockTokens: s.BlockTokens,
		CachingOff: s.CachingOff, Adapters: s.Adapters, MaxAdapters: s.MaxAdapters, Started: s.Started,
	}
	if s.HasRunning {
		out.Running = &s.Running
	}
	if s.HasWaiting {
		out.Waiting = &s.Waiting
	}
	if s.HasKVUsage {
		out.KVUsage = &s.KVUsage
	}
	if s.HasHits {
		out.Queries, out.Hits = &s.Queries, &s.Hits
	}
	if s.HasPromptTokens {
		out.PromptTokens = &s.PromptTokens
	}
	if s.HasSleep {
		out.Asleep = &s.Asleep
	}
	return out
}

// contentType returns what a page's first line says its content type was.
func contentType(page string) string {
	first, _, _ := strings.Cut(page, "\n")
	said, ok := strings.CutPrefix(first, "# content-type: ")
	if !ok {
		return "text/plain; version=0.0.4; charset=utf-8"
	}
	return said
}

// understand parses a page and returns all it says.
func understand(t *testing.T, page string) golden {
	t.Helper()
	p, err := Parse([]byte(page), contentType(page))
	if err != nil {
		return golden{Unknown: err.Error()}
	}
	whole, err := p.State(backends.NoRank)
	if err != nil {
		t.Fatalf("the whole engine: %v", err)
	}
	out := golden{Engine: say(whole)}
	for _, r := range p.table.ranks() {
		rank, err := strconv.Atoi(r)
		if err != nil {
			t.Fatalf("rank %q: %v", r, err)
		}
		s, err := p.State(rank)
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
		if out.Ranks == nil {
			out.Ranks = make(map[string]*said)
		}
		out.Ranks[r] = say(s)
	}
	if len(out.Ranks) == 1 {
		if diff := cmp.Diff(out.Engine, out.Ranks["0"]); diff != "" {
			t.Errorf("of one engine, the rank differs from the whole (-whole +rank):\n%s", diff)
		}
		out.Ranks = nil
	}
	return out
}

// TestPages reads every page under testdata and compares with the file beside it.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %v, error %v", pages, err)
	}
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(understand(t, string(page)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			expected := strings.TrimSuffix(path, ".txt") + ".json"
			if *update {
				if err := os.WriteFile(expected, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatalf("%v: run with -update and look at what it says", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("what the page says (-want +got):\n%s", diff)
			}
		})
	}
}
