// Package discoverytest has the suite that every [discovery.Source] passes.
package discoverytest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
)

// patience is how long the suite waits for what must come.
const patience = 10 * time.Second

// World is what a source looks at. Its methods fail the test where they cannot do what
// they are for.
type World interface {
	// Source returns a source that looks at the world, several times in a second.
	Source(t *testing.T) discovery.Source
	// Name makes the world name backends at these addresses, host:port, and mends it.
	Name(t *testing.T, addresses ...string)
	// Break makes it impossible to find out which backends there are.
	Break(t *testing.T)
}

// Silencer is a World that can also be made not to answer at all.
type Silencer interface {
	// Silence makes whoever asks wait.
	Silence(t *testing.T)
}

// Run runs the suite. newWorld is called for each part of it.
func Run(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, w World)
	}{
		{"tells what there is", testAnswers},
		{"an empty answer is an answer", testEmpty},
		{"an error is no empty answer", testErrors},
		{"waits for a world that comes later", testBrokenFirst},
		{"says again what still holds", testRepeats},
		{"ends with its context", testEnds},
		{"ends while it waits", testEndsInSilence},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, newWorld(t)) })
	}
}

// RunStatic runs the part of the suite that a source passes whose answer never changes.
func RunStatic(t *testing.T, source discovery.Source, addresses ...string) {
	t.Helper()
	l := listen(t, source)
	l.expect(addresses...)
	l.end()
}

func testAnswers(t *testing.T, w World) {
	w.Name(t, "10.0.0.1:8000")
	l := listen(t, w.Source(t))
	for _, addresses := range [][]string{
		{"10.0.0.1:8000"},
		{"10.0.0.1:8000", "10.0.0.2:8000"},
		{"10.0.0.2:8000", "10.0.0.3:8000"},
		{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"},
	} {
		w.Name(t, addresses...)
		l.expect(addresses...)
	}
	l.end()
}

func testEmpty(t *testing.T, w World) {
	w.Name(t)
	l := listen(t, w.Source(t))
	l.expect()
	w.Name(t, "10.0.0.1:8000")
	l.expect("10.0.0.1:8000")
	w.Name(t)
	l.expect()
	l.end()
	if l.errors > 0 {
		t.Errorf("%d errors were told, the last: %v", l.errors, l.err)
	}
}

func testErrors(t *testing.T, w World) {
	w.Name(t, "10.0.0.1:8000")
	l := listen(t, w.Source(t))
	l.expect("10.0.0.1:8000")
	for range 2 {
		w.Break(t)
		l.expectError()
		l.expect("10.0.0.1:8000") // the last good answer
		w.Name(t, "10.0.0.1:8000")
		l.expectRecovery()
	}
	w.Name(t, "10.0.0.2:8000")
	l.expect("10.0.0.2:8000")
	l.end()
}

func testBrokenFirst(t *testing.T, w World) {
	w.Break(t)
	l := listen(t, w.Source(t))
	l.expectError()
	if l.answered {
		t.Errorf("a world that is broken named %v", l.list)
	}
	w.Name(t, "10.0.0.1:8000")
	l.expect("10.0.0.1:8000")
	l.end()
}

func testRepeats(t *testing.T, w World) {
	w.Name(t, "10.0.0.1:8000")
	l := listen(t, w.Source(t))
	l.expect("10.0.0.1:8000")
	before := l.count()
	l.await("another answer", func() bool { return l.tellings > before })
	l.expect("10.0.0.1:8000")
	l.end()
}

func testEnds(t *testing.T, w World) {
	w.Name(t, "10.0.0.1:8000")
	for range 20 { // at moments that differ
		l := listen(t, w.Source(t))
		time.Sleep(time.Duration(len(t.Name())) * time.Millisecond / 4)
		l.end()
		if l.errors > 0 {
			t.Fatalf("that its context ends was told as an error: %v", l.err)
		}
	}
}

func testEndsInSilence(t *testing.T, w World) {
	mute, ok := w.(Silencer)
	if !ok {
		return // it never waits
	}
	w.Name(t, "10.0.0.1:8000")
	l := listen(t, w.Source(t))
	l.expect("10.0.0.1:8000")
	mute.Silence(t)
	l.expectError()
	l.expect("10.0.0.1:8000")
	l.end()
}

// listener hears what a source tells.
type listener struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	heard    sync.Cond
	tellings int
	answered bool
	list     []string // of the last answer
	err      error    // of the last telling
	errors   int
	over     bool // Run has returned
}

// listen runs a source until the test ends.
func listen(t *testing.T, source discovery.Source) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{t: t, cancel: cancel, ended: make(chan struct{})}
	l.heard.L = &l.mu
	go func() {
		defer close(l.ended)
		source.Run(ctx, l.tell)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.over = true
	}()
	t.Cleanup(func() {
		cancel()
		<-l.ended
	})
	return l
}

func (l *listener) tell(list []backends.Spec, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.heard.Broadcast()
	if l.over {
		l.t.Error("tell was called after Run had returned")
	}
	l.tellings++
	l.err = err
	if err != nil {
		l.errors++
	}
	if list == nil && err != nil {
		return
	}
	l.answered, l.list = true, []string{}
	for _, s := range list {
		_, identity, err := backends.ParseURL(s.URL)
		if err != nil {
			l.t.Error(err)
		}
		if !s.Unready {
			l.list = append(l.list, s.ID(identity))
		}
	}
	slices.Sort(l.list)
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tellings
}

// await waits until a condition holds, which is asked with mu held.
func (l *listener) await(what string, holds func() bool) {
	l.t.Helper()
	late := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard.Broadcast()
	})
	defer late.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for start := time.Now(); !holds(); l.heard.Wait() {
		if time.Since(start) >= patience {
			l.t.Fatalf("%s did not come: the last of %d tellings was %v, %v", what, l.tellings, l.list, l.err)
		}
	}
}

// expect waits until the last answer names these addresses.
func (l *listener) expect(addresses ...string) {
	l.t.Helper()
	slices.Sort(addresses)
	l.await("["+strings.Join(addresses, " ")+"]", func() bool { return l.answered && slices.Equal(l.list, addresses) })
}

func (l *listener) expectError() {
	l.t.Helper()
	l.await("an error", func() bool { return l.err != nil })
}

func (l *listener) expectRecovery() {
	l.t.Helper()
	l.await("an answer without an error", func() bool { return l.err == nil })
}

// end ends the source.
func (l *listener) end() {
	l.t.Helper()
	l.cancel()
	select {
	case <-l.ended:
	case <-time.After(patience):
		l.t.Fatal("Run does not return")
	}
}
