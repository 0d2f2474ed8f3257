package arch

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// fixture makes a tree from file contents.
func fixture(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// expect compares breaches with fragments that they must contain, one each and in order.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d breaches, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("breach %d is %q, want it to contain %q", i, got[i], want[i])
		}
	}
}

// imports is a Go file that imports the given paths and nothing more.
func imports(name string, paths ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", name)
	for _, p := range paths {
		fmt.Fprintf(&b, "import _ %q\n", p)
	}
	return b.String()
}

func TestLayers(t *testing.T) {
	table := []place{
		{path: "block", layer: 0, kind: pure},
		{path: "block/disk", layer: 1, kind: outer},
		{path: "route", layer: 1, kind: pure},
		{path: "model", layer: 1, kind: pure, also: []string{"route"}},
		{path: "model/web", layer: 1, kind: outer},
		{path: "net/...", layer: 2, kind: outer},
		{path: "aid", layer: 3, kind: helper},
		{path: "cmd/run", layer: 3, kind: command},
		{path: "tests/...", layer: 3, kind: suite},
	}
	const m = modulePath + "/"
	clean := map[string]string{
		"block/a.go":       imports("block", "fmt"),
		"block/a_test.go":  imports("block", m+"net/http"), // test files may import anything
		"block/disk/a.go":  imports("disk", m+"block", "os"),
		"route/a.go":       imports("route", m+"block"),
		"model/a.go":       imports("model", m+"block", m+"route"),
		"model/web/a.go":   imports("web", m+"model"),
		"net/http/a.go":    imports("http", m+"route", m+"block/disk"),
		"aid/a.go":         imports("aid", m+"block"),
		"cmd/run/a.go":     imports("main", m+"net/http", m+"block"),
		"tests/x/a.go":     imports("x", m+"aid", m+"net/http"),
		"tests/own/go.mod": "module example.com/own\n",
		"tests/own/a.go":   imports("own", m+"anything"),
	}
	expect(t, checkLayers(fixture(t, clean), table))

	for _, tc := range []struct {
		name, file, text string
		want             []string
	}{
		{"upwards", "block/b.go", imports("block", m+"route"), []string{"block/b.go:2: block must not import route: imports go to a strictly lower layer"}},
		{"sideways", "route/b.go", imports("route", m+"model"), []string{"route must not import model"}},
		{"exception is one-way", "model/web/b.go", imports("web", m+"route"), []string{"model/web must not import route"}},
		{"pure to outer", "route/b.go", imports("route", m+"block/disk"), []string{"a pure package may import only pure packages"}},
		{"root to own child", "model/b.go", imports("model", m+"model/web"), []string{"a pure package may import only pure packages"}},
		{"wild siblings", "net/grpc/b.go", imports("grpc", m+"net/http"), []string{"net/grpc must not import net/http"}},
		{"helper in product code", "cmd/run/b.go", imports("main", m+"aid"), []string{"only test files may import it"}},
		{"tests in product code", "cmd/run/b.go", imports("main", m+"tests/x"), []string{"only tests may import packages of tests"}},
		{"command imported", "net/http/b.go", imports("http", m+"cmd/run"), []string{"net/http must not import cmd/run"}},
		{"behind a build tag", "block/b.go", "//go:build never\n\n" + imports("block", m+"route"), []string{"block must not import route"}},
		{"no place", "util/b.go", imports("util"), []string{"util: the package has no place in the layer table: add it to layers in tests/arch/layers.go"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := maps.Clone(clean)
			files[tc.file] = tc.text
			expect(t, checkLayers(fixture(t, files), table), tc.want...)
		})
	}
}

func TestPurity(t *testing.T) {
	table := []place{{path: "p", kind: pure}, {path: "q", kind: outer}}
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{"values are fine", `import ("time"; "math/rand/v2"; "net/netip"; "net/url"; "fmt")
			var _ = time.Unix(0, 0).Add(time.Second); var _ = rand.New(rand.NewPCG(1, 2)); var _ netip.Addr; var _ = url.Parse; var _ = fmt.Sprint`, nil},
		{"network", `import _ "net/http"`, []string{"must not import net/http"}},
		{"the network itself", `import _ "net"`, []string{"must not import net:"}},
		{"similar names are fine", `import _ "network.example/x"`, nil},
		{"disk", `import ("os/exec"; _ "io/fs"); var _ = exec.Command`, []string{"must not import os/exec", "must not import io/fs"}},
		{"logging", `import _ "log/slog"`, []string{"must not import log/slog"}},
		{"metrics", `import _ "github.com/prometheus/client_golang/prometheus"`, []string{"events leave through hooks"}},
		{"test package", `import _ "testing/synctest"`, []string{"must not import testing/synctest"}},
		{"clock", `import "time"; var _ = time.Now()`, []string{"must not use time.Now: time comes in as a value"}},
		{"clock as a value", `import clock "time"; var now = clock.Now`, []string{"must not use time.Now"}},
		{"timers", `import "time"; func f() { time.Sleep(1); <-time.After(1); time.NewTimer(1) }`, []string{"time.Sleep", "time.After", "time.NewTimer"}},
		{"hidden", `import . "time"; var _ = Now()`, []string{"dot import of time"}},
		{"a method of that name", `type clock struct{}; func (clock) Now() int { return 0 }; var c clock; var _ = c.Now()`, nil},
		{"global generator", `import "math/rand/v2"; var _ = rand.IntN(3)`, []string{"global generator (math/rand/v2.IntN)"}},
		{"old generator", `import "math/rand"; var _ = rand.New`, []string{"must not import math/rand"}},
		{"printing", `import "fmt"; func f() { fmt.Println() }`, []string{"must not use fmt.Println"}},
		{"deadline", `import "context"; var _ = context.WithTimeout`, []string{"context.WithTimeout"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"p/a.go": "package p\n\n" + tc.body, "p/a_test.go": imports("p", "os", "net"), "q/a.go": imports("q", "os", "net")}
			got := checkPurity(fixture(t, files), table)
			for _, w := range tc.want {
				if !strings.Contains(strings.Join(got, "\n"), w) {
					t.Errorf("no breach contains %q", w)
				}
			}
			if len(got) != len(tc.want) {
				t.Errorf("got %q, want %d breaches", got, len(tc.want))
			}
		})
	}
}

func TestIdentifier(t *testing.T) {
	f := fixture(t, map[string]string{"a.go": "package a\nimport (\n\"math/rand/v2\"\nx \"time\"\n\"example.com/v1x\"\n)\n"}).pkgs[0].files[0]
	for importPath, want := range map[string]string{"math/rand/v2": "rand", "time": "x", "example.com/v1x": "v1x"} {
		if got := identifier(importPath, f.imports()[importPath]); got != want {
			t.Errorf("identifier(%s) = %s, want %s", importPath, got, want)
		}
	}
}

func TestPackageComments(t *testing.T) {
	tr := fixture(t, map[string]string{
		"good/doc.go":         "// Package good is.\npackage good\n",
		"good/good_test.go":   "package good_test\n",
		"cmd/doc.go":          "// Command cmd runs.\npackage main\n",
		"constraint/doc.go":   "//go:build linux\n\n// Package constraint is.\npackage constraint\n",
		"none/a.go":           "package none\n",
		"directive/a.go":      "//go:generate true\npackage directive\n",
		"two/a.go":            "// Package two is.\npackage two\n",
		"two/b.go":            "// Package two is again.\npackage two\n",
		"odd/a.go":            "// This is odd.\npackage odd\n",
		"only/only_test.go":   "package only\n",
		"only/testdata/a.go":  "package broken\n",
		"intest/a.go":         "package intest\n",
		"intest/doc_test.go":  "// Package intest is.\npackage intest\n",
		"_ignored/ignored.go": "not Go\n",
	})
	expect(t, checkPackageComments(tr),
		"directive: the package has no package comment",
		"intest/doc_test.go: the package comment belongs in a file that is not a test",
		"none: the package has no package comment",
		`odd/a.go: the package comment must start with "Package odd "`,
		"only: there are only test files",
		"two: 2 package comments, want one: two/a.go, two/b.go",
	)
}

func TestExportedDocs(t *testing.T) {
	const src = `package p

type Bare struct{}

// Doc is.
type Doc struct{ Field int }

type (
	Inner struct{}
	// Told is.
	Told struct{}
)

func Func() {}

// Said does.
func Said() {}

func (Doc) Method() {}
func (Doc) Error() string { return "" }
func Error() {}

func (*Gen[T]) Generic() {}

// Gen is.
type Gen[T any] struct{}

type hidden struct{}

func (hidden) Method() {}

const Lone = 1

// These are.
const (
	A = iota
	B
)

var (
	X = 1 // X is.
	Y = 2
	z = 3
)
`
	tr := fixture(t, map[string]string{
		"p/p.go":       src,
		"p/p_test.go":  "package p\nfunc Loose() {}\n",
		"p/gen.go":     "// Code generated by hand. DO NOT EDIT.\n\npackage p\nfunc Loose() {}\n",
		"cmd/x/run.go": "package main\nfunc Loose() {}\n",
	})
	expect(t, checkExportedDocs(tr),
		"p/p.go:14: exported Func", "p/p.go:19: exported Method", "p/p.go:21: exported Error", "p/p.go:23: exported Generic",
		"p/p.go:32: exported Lone", "p/p.go:3: exported Bare", "p/p.go:42: exported Y", "p/p.go:9: exported Inner",
	)
}

func TestFiles(t *testing.T) {
	long := "package p\n" + strings.Repeat("\n", maxLines)
	tr := fixture(t, map[string]string{
		"go.mod":              "module x\n",
		"router/long.go":      long,
		"router/long_test.go": long,
		"router/gen.go":       "// Code generated by hand. DO NOT EDIT.\n" + long,
		"util/x.go":           "package util\n",
		"NOTES.md":            "# Notes",
		"docs/two.md":         "# Two\n\n",
		"docs/testdata/x.md":  "as it is",
		"Makefile":            "all:",
		".ci/run":             "true\n",
		"bin/warmroute":       "built",
		".git/config":         "private",
	})
	expect(t, checkTopLevel(tr), "NOTES.md has no place", "util has no place")
	expect(t, checkFileLength(tr), fmt.Sprintf("router/long.go: %d lines", maxLines+1))
	expect(t, checkFinalNewline(tr), "Makefile", "NOTES.md", "docs/two.md", "router/gen.go", "router/long.go", "router/long_test.go")
}

func TestForeignWords(t *testing.T) {
	words := foreignWords()
	files := map[string]string{"docs/fine.md": "a path such as /srv/models, and golang.org/x/sync\n"}
	for i, w := range words {
		files[fmt.Sprintf("docs/%02d.md", i)] = "first line\nsee " + w + "/x\n"
	}
	got := checkForeignWords(fixture(t, files))
	if len(got) != len(words) {
		t.Errorf("got %d breaches, want %d: %q", len(got), len(words), got)
	}
	for i, b := range got {
		if !strings.HasPrefix(b, fmt.Sprintf("docs/%02d.md:2: ", i)) {
			t.Errorf("breach %d is %q", i, b)
		}
	}
}

func TestLinks(t *testing.T) {
	tr := fixture(t, map[string]string{
		"README.md": "[design](docs/design.md#words) [web](https://example.com/x) [here](#top) [mail](mailto:a@example.com)\n" +
			"`[code](nowhere.md)` ![picture](docs/p.svg \"title\")\n```\n[fenced](nowhere.md)\n```\n[gone](docs/gone.md) [out](../other/x.md)\n[ref]: docs/gone2.md\n",
		"docs/design.md": "[up](../README.md) [dir](../docs) [root](/README.md)\n",
		"docs/p.svg":     "<svg/>\n",
	})
	expect(t, checkLinks(tr),
		"README.md:6: link docs/gone.md does not resolve",
		"README.md:6: link ../other/x.md leaves the repository",
		"README.md:7: link docs/gone2.md does not resolve",
		"docs/design.md:1: link /README.md leaves the repository",
	)
}

func TestDependencies(t *testing.T) {
	const mod = "module x\n\ngo 1.26.0\n\nrequire (\n\texample.com/hash v1.0.0\n\texample.com/lru/v2 v2.0.0\n\texample.com/deep v1.0.0 // indirect\n)\n\nrequire example.com/diff v0.1.0\n"
	const doc = "| Module | Licence | Why | Importable from |\n|---|---|---|---|\n" +
		"| `example.com/hash` | MIT | fast | `block`, `net/...` |\n" +
		"| `example.com/lru/v2` (`simple`) | MIT | complete | `block` |\n" +
		"| `example.com/diff` | MIT | clear | test files |\n"
	table := []place{{path: "block", kind: pure}, {path: "net/...", kind: outer}, {path: "aid", kind: helper}, {path: "tests/...", kind: suite}}
	clean := map[string]string{
		"block/a.go":      imports("block", "example.com/hash", "example.com/lru/v2/simple", "fmt", modulePath+"/net"),
		"block/a_test.go": imports("block", "example.com/diff"),
		"net/x/a.go":      imports("x", "example.com/hash/sub"),
		"aid/a.go":        imports("aid", "example.com/diff"),
		"tests/e/a.go":    imports("e", "example.com/diff"),
		"own/go.mod":      "module example.com/own\n",
		"own/a.go":        imports("own", "example.com/other"),
	}
	with := func(files map[string]string, mod, doc string) *tree {
		files = maps.Clone(files)
		files["go.mod"], files["DEPENDENCIES.md"] = mod, doc
		return fixture(t, files)
	}
	expect(t, checkDependencies(with(clean, mod, doc), table))

	t.Run("imports", func(t *testing.T) {
		files := maps.Clone(clean)
		files["block/b.go"] = imports("block", "example.com/diff")
		files["block/c.go"] = imports("block", "example.com/lru/v2")
		files["block/d.go"] = imports("block", "example.com/hashish")
		files["tests/e/b.go"] = imports("e", "example.com/hash")
		expect(t, checkDependencies(with(files, mod, doc), table),
			"block/b.go:2: example.com/diff: DEPENDENCIES.md does not allow it in block",
			"block/c.go:2: example.com/lru/v2: DEPENDENCIES.md allows only these of its packages: simple",
			"block/d.go:2: example.com/hashish: its module is not in DEPENDENCIES.md",
			"tests/e/b.go:2: example.com/hash: DEPENDENCIES.md does not allow it in tests/e",
		)
	})
	t.Run("requirements", func(t *testing.T) {
		more := mod + "\nrequire example.com/new v1.0.0\n"
		rows := doc + "| `example.com/old` | MIT | gone | `block` |\n| `example.com/bad` | MIT | why |\n| `example.com/deep` | MIT | why | anywhere |\n"
		expect(t, checkDependencies(with(clean, more, rows), table),
			"DEPENDENCIES.md: example.com/old is not in go.mod: remove the row",
			"DEPENDENCIES.md:7: a row has four filled cells",
			"DEPENDENCIES.md:8: example.com/deep may be imported from nowhere",
			"go.mod: example.com/new is not in DEPENDENCIES.md",
		)
	})
}

func TestLoadRefusesBrokenGo(t *testing.T) {
	fsys := fstest.MapFS{"p/a.go": {Data: []byte("package p\nfunc {\n")}}
	if _, err := load(fsys); err == nil || !strings.Contains(err.Error(), "p/a.go") {
		t.Errorf("load = %v, want an error that names the file", err)
	}
}
