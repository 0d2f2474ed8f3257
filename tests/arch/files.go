package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// topLevel is everything that may stand at the top of the repository, beside what .gitignore names.
var topLevel = []string{
	// The product.
	"backends", "kvindex", "feedback", "router", "api", "proto", "cmd", "tests",
	"go.mod", "go.sum", "Makefile",
	// Beside it.
	"internal", "docs", "deploy", "examples", "tools", ".ci",
	"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "DEPENDENCIES.md", "SECURITY.md",
	"LICENSE", ".gitignore", ".golangci.yml",
}

// checkTopLevel allows only the names above at the top of the checkout.
func checkTopLevel(t *tree) []string {
	var breaches []string
	for _, name := range t.files {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains(topLevel, top) {
			breaches = append(breaches, name+": "+top+" has no place at the top of the repository")
		}
	}
	return breaches
}

// maxLines bounds a Go file that is neither a test nor generated.
const maxLines = 600

// checkFileLength reports Go files that have outgrown one concept.
func checkFileLength(t *tree) []string {
	var breaches []string
	for _, p := range t.pkgs {
		for _, f := range p.files {
			if !f.test && !ast.IsGenerated(f.ast) && f.size > maxLines {
				breaches = append(breaches, fmt.Sprintf("%s: %d lines, at most %d: split it by concept", f.path, f.size, maxLines))
			}
		}
	}
	return sorted(breaches)
}

// checkFinalNewline wants text that people edit to end with exactly one newline. Test data is as it is.
func checkFinalNewline(t *tree) []string {
	var breaches []string
	for i, name := range t.files {
		if !edited(name) {
			continue
		}
		if text := t.texts[i]; len(text) > 0 && (!bytes.HasSuffix(text, []byte("\n")) || bytes.HasSuffix(text, []byte("\n\n"))) {
			breaches = append(breaches, name+": must end with one newline")
		}
	}
	return breaches
}

func edited(name string) bool {
	if slices.Contains(strings.Split(name, "/"), "testdata") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".mod", ".sum", ".md", ".yml", ".yaml", ".sh":
		return true
	}
	return path.Base(name) == "Makefile" || strings.HasPrefix(name, ".ci/")
}

// foreignWords returns what only makes sense on somebody's machine: paths of checkouts and caches, and hosts of
// package registries, which a build takes from its environment. They are put together here so that this file
// does not contain them.
func foreignWords() []string {
	join := func(sep string, parts ...string) string { return strings.Join(parts, sep) }
	return []string{
		join("/", "", "work", "main"),
		join("/", "", "work", "shared"),
		join("/", "", "work", ".library"),
		join("/", "", "root", "go"),
		join("/", "", "root", ".cache"),
		join("/", "", "tmp", "bash_"),
		join("/", "", "Users", ""),
		join(".", "proxy", "golang", "org"),
		join(".", "sum", "golang", "org"),
		join(".", "goproxy", "io"),
		join(".", "registry", "npmjs", "org"),
		join(".", "files", "pythonhosted", "org"),
	}
}

// checkForeignWords looks for them in every file, test data included.
func checkForeignWords(t *tree) []string {
	var breaches []string
	for i, name := range t.files {
		for _, w := range foreignWords() {
			if at := bytes.Index(t.texts[i], []byte(w)); at >= 0 {
				line := 1 + bytes.Count(t.texts[i][:at], []byte("\n"))
				breaches = append(breaches, fmt.Sprintf("%s:%d: %q belongs to one machine or registry", name, line, w))
			}
		}
	}
	return breaches
}
