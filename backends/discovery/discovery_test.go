package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/discoverytest"
)

func specs(names ...string) []backends.Spec {
	all := []backends.Spec{}
	for _, name := range names {
		name, unready := strings.CutPrefix(name, "!")
		all = append(all, backends.Spec{URL: "http://" + name + ":80", Rank: backends.NoRank, Unready: unready})
	}
	return all
}

func TestStatic(t *testing.T) {
	discoverytest.RunStatic(t, discovery.Static(specs("b2", "b1")), "b1:80", "b2:80")
}

// script is a source that says what it is told to.
type script struct{ lines chan func(discovery.Tell) }

func newScript() script { return script{make(chan func(discovery.Tell))} }

func (s script) Run(ctx context.Context, tell discovery.Tell) {
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-s.lines:
			line(tell)
		}
	}
}

// say makes the source give an answer, and returns when it has been taken in.
func (s script) say(err error, names ...string) {
	done := make(chan struct{})
	s.lines <- func(tell discovery.Tell) {
		defer close(done)
		if names == nil && err != nil {
			tell(nil, err)
			return
		}
		tell(specs(names...), err)
	}
	<-done
}

// play is a discovery that runs, and what it did.
type play struct {
	*discovery.Discovery
	a, b script

	mu     sync.Mutex
	events []string
	refuse error
}

func (p *play) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse
}

func (p *play) refuseWith(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = err
}

func start(t *testing.T) *play {
	t.Helper()
	p := &play{a: newScript(), b: newScript()}
	event := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, fmt.Sprintf(format, args...))
	}
	p.Discovery = discovery.New(discovery.Options{
		Sources: []discovery.Named{{Name: "static", Source: discovery.Static(specs("s"))}, {Name: "a", Source: p.a}, {Name: "b", Source: p.b}},
		Apply: func(list []backends.Spec) error {
			if err := p.refusal(); err != nil {
				return err
			}
			var names []string
			for _, s := range list {
				name := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), ":80")
				if s.Unready {
					name = "!" + name
				}
				names = append(names, name)
			}
			event("apply %s", strings.Join(names, " "))
			return nil
		},
		Hooks: discovery.Hooks{
			Changed:   func(source string, c discovery.Change) { event("%s: %s %s", source, c.Backend.ID, c.Event) },
			Failed:    func(source string, err error) { event("%s failed: %v", source, err) },
			Recovered: func(source string) { event("%s recovered", source) },
			Refused:   func(err error) { event("refused: %v", err) },
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return p
}

// expect compares what happened since the last call.
func (p *play) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.events); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.events = nil
}

func TestSourcesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.expect(t) // what is static was known before
		p.a.say(nil, "b1", "b2")
		p.expect(t, "apply b1 b2 s", "a: b1:80 arrived", "a: b2:80 arrived")
		p.a.say(nil, "b1", "b2")
		p.b.say(nil, "b2")
		p.expect(t) // nothing has changed
		p.b.say(nil, "!b2")
		p.expect(t, "apply b1 !b2 s", "a: b2:80 not ready")
		p.b.say(nil)
		p.expect(t, "apply b1 b2 s", "a: b2:80 ready")
	})
}

// TestAnswered: a source that only fails has not answered.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		for i, say := range []func(){
			func() {}, func() { p.a.say(nil, "b1") }, func() { p.b.say(errors.New("refused")) }, func() { p.b.say(nil) },
			func() { p.b.say(errors.New("refused")) },
		} {
			say()
			synctest.Wait()
			if got, want := p.Answered(), i >= 3; got != want {
				t.Errorf("step %d: answered: %v", i, got)
			}
		}
	})
}

func TestErrorsKeepTheLastGoodAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.a.say(errors.New("refused"))
		p.expect(t, "a failed: refused")
		began := time.Now()
		p.a.say(nil, "b1", "b2")
		p.expect(t, "a recovered", "apply b1 b2 s", "a: b1:80 arrived", "a: b2:80 arrived")
		time.Sleep(time.Hour)
		p.a.say(errors.New("timeout"))
		p.a.say(errors.New("timeout"))
		p.expect(t, "a failed: timeout") // once, and the list stays
		p.a.say(errors.New("half of it"), "b1", "b2", "b3")
		p.expect(t, "apply b1 b2 b3 s", "a: b3:80 arrived")
		status := p.Status()[1]
		if status.Err == nil || status.Errors != 4 || status.Backends != 3 || !status.Last.Equal(began) {
			t.Errorf("%+v, want 4 errors, 3 backends, last at %v", status, began)
		}
		p.a.lines <- func(tell discovery.Tell) { tell([]backends.Spec{{URL: "ftp://b1"}}, nil) }
		synctest.Wait()
		if err := p.Status()[1].Err; err == nil || !strings.Contains(err.Error(), "ftp://b1") {
			t.Errorf("an answer that makes no sense: %v", err)
		}
		p.expect(t)
		p.a.say(nil)
		p.expect(t, "a recovered", "apply !b1 !b2 !b3 s", "a: b1:80 left", "a: b2:80 left", "a: b3:80 left")
	})
}

func TestWhoLeftIsForgottenAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.a.say(nil, "b1", "b2")
		p.expect(t, "apply b1 b2 s", "a: b1:80 arrived", "a: b2:80 arrived")
		p.a.say(nil, "b1")
		p.expect(t, "apply b1 !b2 s", "a: b2:80 left")
		time.Sleep(30 * time.Second)
		p.a.say(nil)
		p.expect(t, "apply !b1 !b2 s", "a: b1:80 left")
		time.Sleep(30*time.Second - time.Nanosecond)
		p.expect(t)
		time.Sleep(time.Nanosecond)
		p.expect(t, "apply !b1 s", "a: b2:80 removed")
		p.a.say(nil, "b1")
		p.expect(t, "apply b1 s", "a: b1:80 returned")
		time.Sleep(time.Hour)
		p.expect(t)
	})
}

func TestListThatIsRefusedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.refuseWith(errors.New("full"))
		p.a.say(nil, "b1")
		p.expect(t, "refused: full", "a: b1:80 arrived")
		p.refuseWith(nil)
		p.a.say(nil, "b1")
		p.expect(t, "apply b1 s")
	})
}

// A list that is replaced is followed at once, and what makes no sense is refused.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		if err := p.Set("static", specs("s", "t")); err != nil {
			t.Error(err)
		}
		p.expect(t, "apply s t", "static: t:80 arrived")
		if err := p.Set("static", specs("t")); err != nil {
			t.Error(err)
		}
		p.expect(t, "apply !s t", "static: s:80 left")
		for source, list := range map[string][]backends.Spec{"static": {{URL: "ftp://s"}}, "none": specs("s")} {
			if err := p.Set(source, list); err == nil {
				t.Errorf("%s: %v is taken over", source, list)
			}
		}
		p.refuseWith(errors.New("full"))
		if err := p.Set("static", specs("u")); err == nil || err.Error() != "full" {
			t.Errorf("refused with %v, want full", err)
		}
		if n := p.Status()[0].Backends; n != 1 {
			t.Errorf("%d backends, want 1", n)
		}
		p.expect(t, "refused: full")
		p.refuseWith(nil)
		p.a.say(nil, "b1") // what was refused does not come back with it
		p.expect(t, "apply b1 !s t", "a: b1:80 arrived")
	})
}

// A draft is in force once it is committed, and leaves no trace when it is discarded; what other
// sources say meanwhile waits.
func TestDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		for source, list := range map[string][]backends.Spec{"static": {{URL: "ftp://s"}}, "none": specs("s")} {
			if _, err := p.Draft(source, list); err == nil {
				t.Errorf("%s: there is a draft of %v", source, list)
			}
		}
		for _, commit := range []bool{false, true} {
			draft, err := p.Draft("static", specs("t"))
			if err != nil {
				t.Fatal(err)
			}
			got := draft.Specs()
			if last := got[len(got)-2:]; last[0].URL != "http://s:80" || !last[0].Unready || last[1].URL != "http://t:80" {
				t.Errorf("it would apply %v", got)
			}
			said := make(chan struct{})
			go func() {
				p.a.say(nil, "b1")
				close(said)
			}()
			if !commit {
				draft.Discard()
				<-said
				p.expect(t, "apply b1 s", "a: b1:80 arrived")
				continue
			}
			if err := draft.Commit(); err != nil {
				t.Error(err)
			}
			<-said
			p.expect(t, "apply b1 !s t", "static: s:80 left", "static: t:80 arrived")
		}
	})
}

func TestStatusNamesTheSources(t *testing.T) {
	d := discovery.New(discovery.Options{Sources: []discovery.Named{{Name: "a", Source: discovery.Static(nil)}, {Name: "b", Source: newScript()}}})
	var names []string
	for _, s := range d.Status() {
		names = append(names, s.Source)
		if static := s.Source == "a"; s.Last.IsZero() == static {
			t.Errorf("%s: last answer at %v", s.Source, s.Last)
		}
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("sources %v", names)
	}
}
