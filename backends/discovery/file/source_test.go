package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/discoverytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a file of a suite.
type world struct {
	path     string
	interval time.Duration
}

func (w *world) Source(t *testing.T) discovery.Source {
	t.Helper()
	s, err := New(Config{Path: w.path, Interval: w.interval})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) Name(t *testing.T, addresses ...string) {
	t.Helper()
	if addresses == nil {
		addresses = []string{}
	}
	text, err := json.Marshal([]map[string]any{{"targets": addresses}})
	if err != nil {
		t.Fatal(err)
	}
	replace(t, w.path, string(text))
}

func (w *world) Break(t *testing.T) {
	t.Helper()
	replace(t, w.path, `[{"targets": [`)
}

// replace puts a file in the place of another, in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T) discoverytest.World {
		return &world{path: filepath.Join(t.TempDir(), "targets.json"), interval: 100 * time.Millisecond}
	})
}

// inPlace is a world whose file is written in place, a part at a time.
type inPlace struct{ world }

func (w *inPlace) Name(t *testing.T, addresses ...string) {
	t.Helper()
	f, err := os.Create(w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprint(f, "- labels: {env: prod}\n  targets:\n")
	for _, a := range addresses {
		fmt.Fprintf(f, "  - %s\n", a)
	}
	if len(addresses) == 0 {
		fmt.Fprint(f, "    []\n")
	}
}

func (w *inPlace) Break(t *testing.T) {
	t.Helper()
	if err := os.Remove(w.path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func TestConformanceOfAFileWrittenInPlace(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T) discoverytest.World {
		return &inPlace{world{path: filepath.Join(t.TempDir(), "targets.yaml"), interval: 100 * time.Millisecond}}
	})
}

// configMap is a world that is mounted as Kubernetes mounts a ConfigMap: the file is a link
// through a link to a directory, and that link is replaced.
type configMap struct {
	world
	versions int
}

func (w *configMap) Name(t *testing.T, addresses ...string) {
	t.Helper()
	w.mount(t, func(version world) { version.Name(t, addresses...) })
}

func (w *configMap) Break(t *testing.T) {
	t.Helper()
	w.mount(t, func(version world) { version.Break(t) })
}

func (w *configMap) mount(t *testing.T, fill func(world)) {
	t.Helper()
	dir, name := filepath.Split(w.path)
	w.versions++
	version := fmt.Sprintf("..v%d", w.versions)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, version), 0o700))
	fill(world{path: filepath.Join(dir, version, name)})
	must(os.Symlink(version, filepath.Join(dir, "..data_tmp")))
	must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if w.versions == 1 {
		must(os.Symlink(filepath.Join("..data", name), w.path))
	}
}

func TestConformanceOfAConfigMap(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T) discoverytest.World {
		return &configMap{world: world{path: filepath.Join(t.TempDir(), "targets.json"), interval: 100 * time.Millisecond}}
	})
}

// answer is what a source told.
type answer struct {
	list []backends.Spec
	err  error
}

// follow runs a source and returns what it tells.
func follow(t *testing.T, c Config) <-chan answer {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	answers, ended := make(chan answer, 100), make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(t.Context(), func(list []backends.Spec, err error) { answers <- answer{list, err} })
	}()
	t.Cleanup(func() { <-ended })
	return answers
}

func next(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("no answer comes")
		return answer{}
	}
}

// A change is noticed when it happens, not at the next look.
func TestChangesAreNoticedAtOnce(t *testing.T) {
	w := world{path: filepath.Join(t.TempDir(), "targets.json")}
	w.Name(t, "b1:80")
	answers := follow(t, Config{Path: w.path, Interval: time.Hour})
	if a := next(t, answers); a.err != nil || len(a.list) != 1 {
		t.Fatalf("%v", a)
	}
	w.Name(t, "b1:80", "b2:80")
	if a := next(t, answers); a.err != nil || len(a.list) != 2 {
		t.Errorf("%v", a)
	}
}

// A directory that comes later, or is replaced, is watched all the same.
func TestDirectoryThatComesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mount")
	w := world{path: filepath.Join(dir, "targets.json")}
	answers := follow(t, Config{Path: w.path, Interval: 100 * time.Millisecond})
	if a := next(t, answers); a.err == nil || !strings.HasSuffix(a.err.Error(), "targets.json: no such file or directory") {
		t.Errorf("%v", a)
	}
	for i := range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w.Name(t, fmt.Sprintf("b%d:80", i))
		for a := next(t, answers); a.err != nil || a.list[0].URL != fmt.Sprintf("http://b%d:80", i); a = next(t, answers) {
		}
	}
}

// Of several files, one that makes no sense keeps what it named, and one that is gone
// names nothing.
func TestPattern(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		replace(t, filepath.Join(dir, name), text)
	}
	s, err := New(Config{Path: filepath.Join(dir, "*.json")})
	if err != nil {
		t.Fatal(err)
	}
	look := func(wantErr string, want ...string) {
		t.Helper()
		list, err := s.look()
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("error %v, want %q", err, wantErr)
		}
		var urls []string
		for _, s := range list {
			urls = append(urls, strings.TrimPrefix(s.URL, "http://"))
		}
		if diff := cmp.Diff(want, urls); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if list == nil && err == nil {
			t.Error("an empty answer is nil")
		}
	}
	look("")
	write("x.json", `[`)
	look("x.json: line 1: unexpected EOF")
	if list, _ := s.look(); list != nil {
		t.Errorf("nothing is known, and told as %v", list)
	}
	write("b.json", `[{"targets": ["b:80"]}]`)
	write("a.json", `[{"targets": ["a:80"]}]`)
	write("ignored.yaml", `nonsense`)
	look("x.json", "a:80", "b:80")
	write("x.json", `[{"targets": ["x:80"]}]`)
	look("", "a:80", "b:80", "x:80")
	write("b.json", `{`)
	look("b.json", "a:80", "b:80", "x:80")
	if err := os.Remove(filepath.Join(dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	look("", "a:80", "x:80")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if list, err := s.look(); list != nil || err == nil {
		t.Errorf("a directory that is gone: %v, %v", list, err)
	}
}

// What is no file is not opened: a pipe would wait for its writer.
func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, big, sub := filepath.Join(dir, "pipe.json"), filepath.Join(dir, "big.json"), filepath.Join(dir, "sub.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "not a file", sub: "not a file", big: "more than 8388608 bytes", filepath.Join(dir, "none.json"): "no such file",
	} {
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Path: "targets/*.yml"}, ""},
		{Config{Path: "/etc/targets.json", Interval: time.Second}, ""},
		{Config{Path: "/etc/"}, `path: "/etc/" names no file`},
		{Config{}, `path: "" names no file`},
		{Config{Path: "*/x.json"}, "only the last element may be a pattern"},
		{Config{Path: "[x.json"}, "a [ is not closed"},
		{Config{Path: "x.txt"}, "does not end in .json, .yaml or .yml"},
		{Config{Path: "x.json", Interval: -1}, "interval: -1ns is negative"},
	} {
		_, err := New(c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}
