package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// modulePath is the import path of the repository's root module.
const modulePath = "github.com/warmroute/warmroute"

// skippedDirs are never looked into: version control and what the Makefile produces.
var skippedDirs = []string{".git", "bin", "out", "node_modules"}

// A tree is one checkout, read once.
type tree struct {
	fsys  fs.FS
	fset  *token.FileSet
	files []string // every regular file, slash-separated
	pkgs  []*pkg   // every directory with Go files, sorted by dir
	mods  []string // directories of the nested modules
	texts [][]byte // contents of files, same order
	byDir map[string]*pkg
}

// A pkg is one directory of Go files, its tests included.
type pkg struct {
	dir    string // "." for the top level
	module string // directory of the nested module it belongs to, "" for the root module
	files  []*goFile
}

// A goFile is one parsed Go file.
type goFile struct {
	path string
	test bool // its name ends in _test.go
	ast  *ast.File
	size int // lines
}

// load reads and parses a checkout.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet(), byDir: map[string]*pkg{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skippedDirs, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular(), name == ".git": // which is a file in a work tree
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		t.files = append(t.files, name)
		t.texts = append(t.texts, text)
		if path.Base(name) == "go.mod" && name != "go.mod" {
			t.mods = append(t.mods, path.Dir(name))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the checkout: %w", err)
	}
	for i, name := range t.files {
		if path.Ext(name) == ".go" && !ignoredByGo(name) {
			if err := t.addGoFile(name, t.texts[i]); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(t.pkgs, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return t, nil
}

// ignoredByGo reports whether the go command passes over a path when it looks for packages.
func ignoredByGo(name string) bool {
	for elem := range strings.SplitSeq(name, "/") {
		if elem == "testdata" || strings.HasPrefix(elem, "_") || strings.HasPrefix(elem, ".") {
			return true
		}
	}
	return false
}

func (t *tree) addGoFile(name string, text []byte) error {
	f, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	dir := path.Dir(name)
	p := t.byDir[dir]
	if p == nil {
		p = &pkg{dir: dir, module: t.moduleOf(dir)}
		t.byDir[dir] = p
		t.pkgs = append(t.pkgs, p)
	}
	p.files = append(p.files, &goFile{
		path: name,
		test: strings.HasSuffix(name, "_test.go"),
		ast:  f,
		size: bytes.Count(text, []byte("\n")),
	})
	return nil
}

// moduleOf names the innermost nested module that contains dir, "" for the root module.
func (t *tree) moduleOf(dir string) string {
	found := ""
	for _, m := range t.mods {
		if within(dir, m) && len(m) > len(found) {
			found = m
		}
	}
	return found
}

// within reports whether name is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// text returns the contents of a file, "" when there is none.
func (t *tree) text(name string) string {
	if i := slices.Index(t.files, name); i >= 0 {
		return string(t.texts[i])
	}
	return ""
}

// at formats the position of a node as file:line.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// isMain reports whether the package is a command.
func (p *pkg) isMain() bool {
	return slices.ContainsFunc(p.files, func(f *goFile) bool { return !f.test && f.ast.Name.Name == "main" })
}

// imports lists the import paths of a file with the node that names each.
func (f *goFile) imports() map[string]*ast.ImportSpec {
	m := make(map[string]*ast.ImportSpec, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			m[p] = spec
		}
	}
	return m
}

// isStandard reports whether an import path belongs to the standard library: its first element has no dot.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// local returns an import path relative to the root module, and whether it lies in it.
func local(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}
