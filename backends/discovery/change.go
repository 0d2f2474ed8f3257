package discovery

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Event is what happened to a backend.
type Event uint8

// The events.
const (
	// Arrived: a source names a backend that none named before.
	Arrived Event = iota
	// Left: no source names it any more. It takes nothing new, and is remembered for a while.
	Left
	// Returned: it is named again in time; what is known of it still holds.
	Returned
	// Removed: it was not named again in time, and is forgotten.
	Removed
	// Replaced: another engine has its URL.
	Replaced
	// Readied: it takes requests again, or for the first time.
	Readied
	// Unreadied: it is starting or ending, and takes nothing new.
	Unreadied
	// Adjusted: its URL's scheme, its weight or its threshold is another.
	Adjusted
)

// String returns what happened in words.
func (e Event) String() string {
	switch e {
	case Arrived:
		return "arrived"
	case Left:
		return "left"
	case Returned:
		return "returned"
	case Removed:
		return "removed"
	case Replaced:
		return "replaced"
	case Readied:
		return "ready"
	case Unreadied:
		return "not ready"
	case Adjusted:
		return "adjusted"
	}
	return "unknown"
}

// Change is something that happened to a backend.
type Change struct {
	Event Event
	// Backend is the backend as it is now, or was last.
	Backend Backend
}

// changes compares what the sources name now with what they named before, and keeps
// account of who left.
func (f *Fleet) changes(merged map[string]Backend, now time.Time) []Change {
	var all []Change
	note := func(e Event, b Backend) { all = append(all, Change{e, b}) }
	for id, b := range merged {
		before, stayed := f.present[id]
		gone, remembered := f.departed[id]
		delete(f.departed, id)
		switch {
		case stayed:
			if event, differs := b.since(before); differs {
				note(event, b)
			}
		case !remembered || now.Sub(gone.at) >= f.linger:
			note(Arrived, b)
		case b.other(gone.backend):
			note(Replaced, b)
		default:
			note(Returned, b)
		}
	}
	for id, b := range f.present {
		if _, stays := merged[id]; !stays {
			b.Unready = true
			f.departed[id] = departure{b, now}
			note(Left, b)
		}
	}
	maps.DeleteFunc(f.departed, func(_ string, gone departure) bool {
		over := now.Sub(gone.at) >= f.linger
		if over {
			note(Removed, gone.backend)
		}
		return over
	})
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Backend.ID, b.Backend.ID), cmp.Compare(a.Event, b.Event))
	})
	return all
}

// other reports whether a backend is another engine than one with the same id before.
func (b Backend) other(before Backend) bool {
	return b.Instance != "" && before.Instance != "" && b.Instance != before.Instance
}

// since returns what happened to a backend that was there before.
func (b Backend) since(before Backend) (event Event, differs bool) {
	readiness := b.Unready != before.Unready
	before.Unready, before.Source = b.Unready, b.Source
	switch {
	case b.other(before):
		return Replaced, true
	case readiness && b.Unready:
		return Unreadied, true
	case readiness:
		return Readied, true
	}
	before.Instance = b.Instance
	return Adjusted, b != before
}
