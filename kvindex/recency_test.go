package kvindex

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// orderModel says the same as a recency, plainly: two lists, oldest first.
type orderModel struct {
	older, newer []modelEntry
	bound        int
	left         []Key
}

type modelEntry struct {
	key Key
	entry
}

func (m *orderModel) all() []modelEntry { return slices.Concat(m.older, m.newer) }

func (m *orderModel) take(key Key) {
	is := func(e modelEntry) bool { return e.key == key }
	m.older, m.newer = slices.DeleteFunc(m.older, is), slices.DeleteFunc(m.newer, is)
}

func (m *orderModel) drop(n int) {
	for ; n > 0 && len(m.all()) > 0; n-- {
		key := m.all()[0].key
		m.take(key)
		m.left = append(m.left, key)
	}
}

func (m *orderModel) makeRoom(key Key) {
	if m.take(key); len(m.all()) >= m.bound {
		m.drop(1)
	}
}

func (m *orderModel) touch(key Key, e entry) {
	m.makeRoom(key)
	m.newer = append(m.newer, modelEntry{key, e})
}

func (m *orderModel) append(key Key, e entry) {
	has := func(list []modelEntry) bool {
		return slices.ContainsFunc(list, func(e modelEntry) bool { return e.key == key })
	}
	if has(m.newer) || len(m.older) == 0 && len(m.newer) >= m.bound {
		return
	}
	m.makeRoom(key)
	m.older = append(m.older, modelEntry{key, e})
}

func (m *orderModel) advance() (Key, entry) {
	e := m.newer[0]
	m.older, m.newer = append(m.older, e), m.newer[1:]
	return e.key, e.entry
}

func (m *orderModel) settle() { m.newer, m.older = m.older, nil }

// order returns all entries of the list, oldest first, and fails if its links do not agree.
func order(t *rapid.T, l *recency) (all []modelEntry) {
	before := none
	for at := l.oldest; at != none; at = l.at(at).newer {
		s := l.at(at)
		if s.older != before || l.places[s.key] != at {
			t.Fatalf("place %d of block %d: behind %d, want %d; found at %d", at, s.key, s.older, before, l.places[s.key])
		}
		all = append(all, modelEntry{s.key, s.entry()})
		before = at
	}
	if before != l.newest {
		t.Fatalf("the newest is at %d, want %d", l.newest, before)
	}
	return all
}

func TestRecency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.SampledFrom([]int{1, 3, 20, 3 * chunkSize}).Draw(t, "bound")
		keys := rapid.Uint64Range(0, uint64(2*bound))
		m := &orderModel{bound: bound}
		var left []Key
		l := newRecency(bound, func(key Key) { left = append(left, key) })
		clock := Stamp(0)
		next := func() entry {
			clock++
			return entry{clock, Status(clock % 2)}
		}
		for range rapid.IntRange(0, bound).Draw(t, "start") {
			key, e := Key(keys.Draw(t, "key")), next()
			m.touch(key, e)
			l.touch(key, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if all := order(t, l); !slices.Equal(all, m.all()) || l.len() != len(all) {
					t.Fatalf("the order of %d is %v, want %v", l.len(), all, m.all())
				}
				if !slices.Equal(left, m.left) {
					t.Fatalf("%v left, want %v", left, m.left)
				}
				first, ok := l.next()
				if ok != (len(m.newer) > 0) || ok && first != m.newer[0].entry || l.older != len(m.older) {
					t.Fatalf("the border is at %v %v, want %v and %v", first, ok, m.older, m.newer)
				}
				if spare := len(l.chunks)*chunkSize - l.len(); spare > 3*chunkSize {
					t.Fatalf("room for %d more than there are", spare)
				}
			},
			"touch": func(t *rapid.T) {
				key, e := Key(keys.Draw(t, "key")), next()
				m.touch(key, e)
				l.touch(key, e)
			},
			"append": func(t *rapid.T) {
				key, e := Key(keys.Draw(t, "key")), next()
				m.append(key, e)
				l.append(key, e)
			},
			"advance": func(t *rapid.T) {
				if len(m.newer) == 0 {
					m.settle()
					l.settle()
					return
				}
				key, e := m.advance()
				if k, got := l.advance(); k != key || got != e {
					t.Fatalf("advanced %d %v, want %d %v", k, got, key, e)
				}
			},
			"remove": func(t *rapid.T) {
				key := Key(keys.Draw(t, "key"))
				if l.contains(key) {
					m.take(key)
					m.left = append(m.left, key)
				}
				l.remove(key)
			},
			"removeOldest": func(t *rapid.T) {
				n := rapid.IntRange(0, bound).Draw(t, "n")
				m.drop(n)
				l.removeOldest(n)
			},
			"resize": func(t *rapid.T) {
				to, most := rapid.IntRange(1, 2*bound).Draw(t, "to"), rapid.IntRange(0, bound).Draw(t, "most")
				excess := max(len(m.all())-to, 0)
				m.drop(min(excess, most))
				if excess <= most {
					m.bound = to
				}
				if done := l.resize(to, most); done != (excess <= most) {
					t.Fatalf("resized: %v", done)
				}
			},
		})
	})
}
