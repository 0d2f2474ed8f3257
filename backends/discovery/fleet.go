package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmroute/warmroute/backends"
)

// Linger is how long a backend that no source names any more is remembered.
const Linger = time.Minute

// maxBackends bounds what one source may name: as many as one index can hold.
const maxBackends = 4096

// Fleet makes one list of what several sources say. It is not safe for concurrent use.
type Fleet struct {
	linger   time.Duration
	answers  [][]located        // by source, the last good ones
	present  map[string]Backend // by id, as last merged, without those that have left
	departed map[string]departure
}

// located is a backend of an answer.
type located struct {
	spec     backends.Spec
	id       string
	identity string // of its URL, without the rank
}

// departure is a backend that no source names any more.
type departure struct {
	backend Backend
	at      time.Time
}

// Backend is a backend of the merged list.
type Backend struct {
	backends.Spec
	// ID is the backend's id.
	ID string
	// Source is the number of the source that describes it.
	Source int
}

// NewFleet returns a fleet of some number of sources that have said nothing yet.
// Backends that left are remembered for linger, [Linger] if it is 0.
func NewFleet(sources int, linger time.Duration) *Fleet {
	return &Fleet{
		linger:   cmp.Or(linger, Linger),
		answers:  make([][]located, sources),
		present:  make(map[string]Backend),
		departed: make(map[string]departure),
	}
}

// Answer takes in all that a source knows now; of what it names twice the first counts.
// If a part of it makes no sense, nothing of it counts and the error says why.
func (f *Fleet) Answer(source int, list []backends.Spec) error {
	if len(list) > maxBackends {
		return fmt.Errorf("%d backends are named, at most %d", len(list), maxBackends)
	}
	all := make([]located, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, spec := range list {
		_, identity, err := backends.ParseURL(spec.URL)
		if err != nil {
			return err
		}
		if id := spec.ID(identity); !seen[id] {
			seen[id] = true
			all = append(all, located{spec, id, identity})
		}
	}
	f.answers[source] = all
	return nil
}

// clone returns a fleet that may go another way.
func (f *Fleet) clone() *Fleet {
	return &Fleet{linger: f.linger, answers: slices.Clone(f.answers), present: f.present, departed: maps.Clone(f.departed)}
}

// Merged is what all sources say together.
type Merged struct {
	// Specs are the backends, sorted by id, those that have just left among them.
	Specs []backends.Spec
	// Changes are what differs from the time before, sorted by id.
	Changes []Change
	// Next is when the list changes without anybody saying anything; zero if it does not.
	Next time.Time
}

// Merge makes one list of the last good answers of all sources.
func (f *Fleet) Merge(now time.Time) Merged {
	merged := f.union()
	m := Merged{Changes: f.changes(merged, now)}
	f.present = merged
	all := maps.Clone(merged)
	for id, gone := range f.departed {
		back := gone.at.Add(f.linger)
		if m.Next.IsZero() || back.Before(m.Next) {
			m.Next = back
		}
		all[id] = gone.backend
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		m.Specs = append(m.Specs, all[id].Spec)
	}
	return m
}

// union returns what the sources name, by id.
func (f *Fleet) union() map[string]Backend {
	merged := make(map[string]Backend)
	owners := make(map[string]int)     // the first source of each identity
	ranks := make(map[string][]string) // the ids that it names
	for source, answer := range f.answers {
		for _, one := range answer {
			if owner, owned := owners[one.identity]; owned && owner != source {
				continue
			}
			owners[one.identity] = source
			merged[one.id] = Backend{Spec: one.spec, ID: one.id, Source: source}
			ranks[one.identity] = append(ranks[one.identity], one.id)
		}
	}
	for source, answer := range f.answers {
		for _, one := range answer {
			if owners[one.identity] == source {
				continue
			}
			for _, id := range ranks[one.identity] {
				merged[id] = merged[id].also(one.spec)
			}
		}
	}
	return merged
}

// also takes in what a further source knows of a backend: that it is not ready, and which
// instance it is. A source that does not tell ranks apart speaks of all of them.
func (b Backend) also(other backends.Spec) Backend {
	if other.Rank == b.Rank || other.Rank == backends.NoRank {
		b.Unready = b.Unready || other.Unready
		b.Instance = cmp.Or(b.Instance, other.Instance)
	}
	return b
}
