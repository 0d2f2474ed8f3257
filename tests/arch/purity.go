package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// bannedImports may not appear in pure packages; each stands for itself and everything below it.
var bannedImports = map[string]string{
	"net":                            "a pure package talks to nobody",
	"os":                             "a pure package reads no files, environment or arguments",
	"io/fs":                          "a pure package reads no files",
	"io/ioutil":                      "a pure package reads no files",
	"syscall":                        "a pure package makes no system calls",
	"log":                            "events leave through hooks",
	"database":                       "a pure package has no store behind it",
	"expvar":                         "events leave through hooks",
	"crypto/rand":                    "randomness comes in as a value",
	"math/rand":                      "randomness comes in as a value, from math/rand/v2",
	"testing":                        "it belongs in test files",
	"golang.org/x/net":               "a pure package talks to nobody",
	"golang.org/x/sys":               "a pure package makes no system calls",
	"google.golang.org/protobuf":     "messages are translated at the edge",
	"google.golang.org/grpc":         "messages are translated at the edge",
	"connectrpc.com":                 "messages are translated at the edge",
	"github.com/prometheus":          "events leave through hooks",
	"github.com/redis":               "a pure package has no store behind it",
	modulePath + "/internal/memhttp": "it is a test helper",
}

// allowedBelow are exceptions to bannedImports: values and parsing only.
var allowedBelow = []string{"net/netip", "net/url", "math/rand/v2"}

// bannedCalls are package-level names that pure packages may not use, by import path.
var bannedCalls = map[string]struct {
	names []string
	why   string
}{
	"time": {
		[]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		"time comes in as a value",
	},
	"fmt": {
		[]string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"a pure package neither prints nor reads a terminal",
	},
	"context": {
		[]string{"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
		"it starts a timer; time comes in as a value",
	},
}

// allowedRand are the names of math/rand/v2 that do not touch the global generator.
var allowedRand = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

// checkPurity holds the non-test files of every pure package against the lists above.
func checkPurity(t *tree, table []place) []string {
	var breaches []string
	for _, p := range t.pkgs {
		if where, ok := find(table, p.dir); !ok || where.kind != pure || p.module != "" {
			continue
		}
		for _, f := range p.files {
			if !f.test {
				breaches = append(breaches, impureImports(t, f)...)
				breaches = append(breaches, impureCalls(t, f)...)
			}
		}
	}
	return sorted(breaches)
}

func impureImports(t *tree, f *goFile) []string {
	var breaches []string
	for importPath, spec := range f.imports() {
		if spec.Name != nil && spec.Name.Name == "." {
			breaches = append(breaches, fmt.Sprintf("%s: dot import of %s hides which names are used", t.at(spec), importPath))
		}
		if slices.Contains(allowedBelow, importPath) {
			continue
		}
		for banned, why := range bannedImports {
			if within(importPath, banned) {
				breaches = append(breaches, fmt.Sprintf("%s: a pure package must not import %s: %s", t.at(spec), importPath, why))
			}
		}
	}
	return breaches
}

func impureCalls(t *tree, f *goFile) []string {
	names := map[string]string{} // identifier in this file → import path
	for importPath, spec := range f.imports() {
		names[identifier(importPath, spec)] = importPath
	}
	var breaches []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		importPath := names[id.Name]
		switch banned := bannedCalls[importPath]; {
		case slices.Contains(banned.names, sel.Sel.Name):
			breaches = append(breaches, fmt.Sprintf("%s: a pure package must not use %s.%s: %s", t.at(sel), importPath, sel.Sel.Name, banned.why))
		case importPath == "math/rand/v2" && !slices.Contains(allowedRand, sel.Sel.Name):
			breaches = append(breaches, fmt.Sprintf("%s: a pure package must not use the global generator (%s.%s): pass a *rand.Rand", t.at(sel), importPath, sel.Sel.Name))
		}
		return true
	})
	return breaches
}

// identifier returns the name by which a file refers to an import.
func identifier(importPath string, spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(importPath)) // a major version suffix
	}
	return base
}
