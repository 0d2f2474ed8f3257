package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmroute/warmroute/backends"
)

// parseSpec reads "b1", "b1#2", "!b1" (not ready), "b1=x" (instance x), "b1*3" (weight 3).
func parseSpec(t *testing.T, text string) backends.Spec {
	t.Helper()
	name, unready := strings.CutPrefix(text, "!")
	spec := backends.Spec{Rank: backends.NoRank, Unready: unready}
	cut := func(sep string) string {
		before, after, _ := strings.Cut(name, sep)
		name = before
		return after
	}
	if weight := cut("*"); weight != "" {
		spec.Weight, _ = strconv.ParseFloat(weight, 64)
	}
	spec.Instance = cut("=")
	if rank := cut("#"); rank != "" {
		spec.Rank, _ = strconv.Atoi(rank)
	}
	spec.URL = "http://" + name + ":80"
	return spec
}

func parseSpecs(t *testing.T, text string) []backends.Spec {
	t.Helper()
	all := []backends.Spec{}
	for field := range strings.FieldsSeq(text) {
		all = append(all, parseSpec(t, field))
	}
	return all
}

// show is the reverse of parseSpecs.
func show(specs []backends.Spec) string {
	all := make([]string, 0, len(specs))
	for _, s := range specs {
		text := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), ":80")
		if s.Rank != backends.NoRank {
			text += "#" + strconv.Itoa(s.Rank)
		}
		if s.Instance != "" {
			text += "=" + s.Instance
		}
		if s.Weight != 0 {
			text += fmt.Sprintf("*%g", s.Weight)
		}
		if s.Unready {
			text = "!" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func showChanges(changes []Change) string {
	all := make([]string, 0, len(changes))
	for _, c := range changes {
		all = append(all, c.Event.String()+" "+c.Backend.ID)
	}
	return strings.Join(all, ", ")
}

// Each case is a row of answers of sources, with the list and the changes that each makes.
func TestFleet(t *testing.T) {
	type step struct {
		after   time.Duration
		source  int
		answer  string
		list    string
		changes string
	}
	for name, steps := range map[string][]step{
		"what two sources name is one backend, as the first describes it": {
			{0, 1, "b1*3 b2", "b1*3 b2", "arrived b1:80, arrived b2:80"},
			{0, 0, "b1*2", "b1*2 b2", "adjusted b1:80"},
			{0, 0, "", "b1*3 b2", "adjusted b1:80"},
		},
		"one backend named twice by one source": {
			{0, 0, "b1*2 b1*3", "b1*2", "arrived b1:80"},
		},
		"whoever knows that it is not ready is believed": {
			{0, 0, "b1", "b1", "arrived b1:80"},
			{0, 1, "!b1", "!b1", "not ready b1:80"},
			{0, 1, "b1", "b1", "ready b1:80"},
			{0, 0, "!b1", "!b1", "not ready b1:80"},
			{0, 0, "", "b1", "ready b1:80"},
		},
		"ranks are the first source's": {
			{0, 1, "b1", "b1", "arrived b1:80"},
			{0, 0, "b1#0 b1#1", "!b1 b1#0 b1#1", "left b1:80, arrived b1:80#0, arrived b1:80#1"},
			{0, 1, "!b1", "!b1 !b1#0 !b1#1", "not ready b1:80#0, not ready b1:80#1"},
			{0, 1, "!b1#1 b1#2", "!b1 b1#0 !b1#1", "ready b1:80#0"},
		},
		"who left is remembered for a minute": {
			{0, 0, "b1 b2", "b1 b2", "arrived b1:80, arrived b2:80"},
			{0, 0, "b1", "b1 !b2", "left b2:80"},
			{59 * time.Second, 0, "b1 b2", "b1 b2", "returned b2:80"},
			{0, 0, "b1", "b1 !b2", "left b2:80"},
			{60 * time.Second, 0, "b1", "b1", "removed b2:80"},
			{0, 0, "b1 b2", "b1 b2", "arrived b2:80"},
		},
		"who comes back when its time is over is new": {
			{0, 0, "b1", "b1", "arrived b1:80"},
			{0, 0, "", "!b1", "left b1:80"},
			{time.Hour, 0, "b1", "b1", "arrived b1:80"},
		},
		"another engine at the same address": {
			{0, 0, "b1=x", "b1=x", "arrived b1:80"},
			{0, 0, "b1=y", "b1=y", "replaced b1:80"},
			{0, 0, "", "!b1=y", "left b1:80"},
			{0, 0, "b1=z", "b1=z", "replaced b1:80"},
			{0, 0, "", "!b1=z", "left b1:80"},
			{0, 0, "b1=z", "b1=z", "returned b1:80"},
		},
		"who knows the instance tells it": {
			{0, 0, "b1", "b1", "arrived b1:80"},
			{0, 1, "b1=x", "b1=x", ""},
			{0, 1, "b1=y", "b1=y", "replaced b1:80"},
		},
		"one source goes on naming what another has dropped": {
			{0, 0, "b1", "b1", "arrived b1:80"},
			{0, 1, "b1", "b1", ""},
			{0, 0, "", "b1", ""},
			{0, 1, "", "!b1", "left b1:80"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, now := NewFleet(2, 0), time.Unix(1000, 0)
			for i, s := range steps {
				now = now.Add(s.after)
				if err := f.Answer(s.source, parseSpecs(t, s.answer)); err != nil {
					t.Fatal(err)
				}
				m := f.Merge(now)
				if got := show(m.Specs); got != s.list {
					t.Errorf("step %d: list %q, want %q", i+1, got, s.list)
				}
				if got := showChanges(m.Changes); got != s.changes {
					t.Errorf("step %d: changes %q, want %q", i+1, got, s.changes)
				}
			}
		})
	}
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	f := NewFleet(1, 0)
	if err := f.Answer(0, parseSpecs(t, "b1")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		list []backends.Spec
		want string
	}{
		{[]backends.Spec{{URL: "http://b2:80", Rank: backends.NoRank}, {URL: "ftp://b3"}}, `"ftp://b3": want http://`},
		{make([]backends.Spec, maxBackends+1), "4097 backends are named, at most 4096"},
	} {
		if err := f.Answer(0, c.list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if got := show(f.Merge(time.Unix(1000, 0)).Specs); got != "b1" {
		t.Errorf("after answers that make no sense: %q, want b1", got)
	}
}

// Whatever sources say, in whatever order: who is named is in the list, ready unless
// somebody says otherwise; who is not named is there for a minute, not ready; and the
// changes lead from each list to the next.
func TestFleetHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const sources = 3
		f, now := NewFleet(sources, 0), time.Unix(1000, 0)
		answers := make([][]backends.Spec, sources)
		named := map[string]time.Time{} // by id, when last
		state := map[string]string{}    // by id, as the changes tell it
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			source := rapid.IntRange(0, sources-1).Draw(rt, "source")
			var list []backends.Spec
			for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"b1", "b2", "!b3", "b3", "!b1"}), 0, 4).Draw(rt, "answer") {
				list = append(list, parseSpec(t, name))
			}
			if err := f.Answer(source, list); err != nil {
				rt.Fatal(err)
			}
			answers[source] = list
			ready := map[string]bool{}
			for _, answer := range answers {
				own := map[string]bool{}
				for _, s := range answer {
					id := strings.TrimPrefix(s.URL, "http://")
					if own[id] {
						continue // the first counts
					}
					own[id] = true
					known, ok := ready[id]
					ready[id] = !s.Unready && (known || !ok)
				}
			}
			m := f.Merge(now)
			got := map[string]bool{}
			for _, s := range m.Specs {
				got[strings.TrimPrefix(s.URL, "http://")] = !s.Unready
			}
			want := map[string]bool{}
			for id := range ready {
				want[id] = ready[id]
				delete(named, id)
			}
			for id := range state {
				if _, still := ready[id]; still {
					continue
				}
				if _, known := named[id]; !known {
					named[id] = now
				}
				if now.Sub(named[id]) < Linger {
					want[id] = false
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("(-want +got)\n%s", diff)
			}
			for _, c := range m.Changes {
				if c.Event == Removed {
					delete(state, c.Backend.ID)
					delete(named, c.Backend.ID)
				} else {
					state[c.Backend.ID] = c.Event.String()
				}
			}
			if len(state) != len(got) {
				rt.Fatalf("the changes tell of %v, the list has %v", state, got)
			}
			if !m.Next.IsZero() && !m.Next.After(now) {
				rt.Fatalf("the list changes at %v, which is over at %v", m.Next, now)
			}
			if !slices.IsSortedFunc(m.Specs, func(a, b backends.Spec) int { return strings.Compare(a.URL, b.URL) }) {
				rt.Fatal("the list is not sorted")
			}
		}
	})
}
