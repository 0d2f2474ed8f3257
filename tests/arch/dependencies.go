package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A dependency is one row of the table in DEPENDENCIES.md.
type dependency struct {
	module   string
	packages []string // if any are named, only these of its packages may be imported
	licence  string
	places   []string // directories, "x/..." for everything below x
	inTests  bool     // test files anywhere, and packages of tests
}

// inTestFiles is how the table says that any test file may import a module.
const inTestFiles = "test files"

var quoted = regexp.MustCompile("`([^`]+)`")

// parseDependencies reads the rows of the table: | `module` (`package`, …) | licence | why | `place`, … |.
func parseDependencies(doc string) ([]dependency, []string) {
	var deps []dependency
	var breaches []string
	for n, line := range strings.Split(doc, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			breaches = append(breaches, fmt.Sprintf("DEPENDENCIES.md:%d: a row has four filled cells: module, licence, why, importable from", n+1))
			continue
		}
		names := quotedWords(cells[0])
		d := dependency{module: names[0], packages: names[1:], licence: strings.TrimSpace(cells[1]), places: quotedWords(cells[3])}
		d.inTests = strings.Contains(cells[3], inTestFiles)
		if len(d.places) == 0 && !d.inTests {
			breaches = append(breaches, fmt.Sprintf("DEPENDENCIES.md:%d: %s may be imported from nowhere", n+1, d.module))
		}
		deps = append(deps, d)
	}
	return deps, breaches
}

func quotedWords(cell string) []string {
	matches := quoted.FindAllStringSubmatch(cell, -1)
	words := make([]string, len(matches))
	for i, m := range matches {
		words[i] = m[1]
	}
	return words
}

// A requirement is one module of go.mod.
type requirement struct {
	module   string
	indirect bool
}

// parseRequirements reads the require lines of a go.mod file as the go command writes them.
func parseRequirements(mod string) []requirement {
	var reqs []requirement
	block := false
	for line := range strings.SplitSeq(mod, "\n") {
		line = strings.TrimSpace(line)
		rest, single := strings.CutPrefix(line, "require ")
		switch {
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
			continue
		case !block && !single:
			continue
		}
		code, comment, _ := strings.Cut(rest, "//")
		if fields := strings.Fields(code); len(fields) == 2 {
			reqs = append(reqs, requirement{fields[0], strings.TrimSpace(comment) == "indirect"})
		}
	}
	return reqs
}

// checkDependencies wants every direct requirement of go.mod in the table, nothing in the table that go.mod does
// not know, and every import of a third-party package from where the table allows it.
func checkDependencies(t *tree, table []place) []string {
	deps, breaches := parseDependencies(t.text("DEPENDENCIES.md"))
	reqs := parseRequirements(t.text("go.mod"))
	for _, r := range reqs {
		listed := slices.ContainsFunc(deps, func(d dependency) bool { return d.module == r.module })
		if !r.indirect && !listed {
			breaches = append(breaches, fmt.Sprintf("go.mod: %s is not in DEPENDENCIES.md: add its licence, why it is worth having, and who may import it", r.module))
		}
	}
	for _, d := range deps {
		if !slices.ContainsFunc(reqs, func(r requirement) bool { return d.module == r.module }) {
			breaches = append(breaches, fmt.Sprintf("DEPENDENCIES.md: %s is not in go.mod: remove the row", d.module))
		}
	}
	for _, p := range t.pkgs {
		if p.module != "" {
			continue // nested modules keep their own requirements
		}
		where, _ := find(table, p.dir)
		for _, f := range p.files {
			inTests := f.test || where.kind == suite || where.kind == helper
			for importPath, spec := range f.imports() {
				if _, ours := local(importPath); ours || isStandard(importPath) {
					continue
				}
				if why := mayUse(deps, importPath, p.dir, inTests); why != "" {
					breaches = append(breaches, fmt.Sprintf("%s: %s: %s", t.at(spec), importPath, why))
				}
			}
		}
	}
	return sorted(breaches)
}

// mayUse returns why a file in dir must not import a third-party package, "" when it may.
func mayUse(deps []dependency, importPath, dir string, inTests bool) string {
	var found *dependency
	for i, d := range deps {
		if within(importPath, d.module) && (found == nil || len(d.module) > len(found.module)) {
			found = &deps[i]
		}
	}
	if found == nil {
		return "its module is not in DEPENDENCIES.md"
	}
	sub := strings.TrimPrefix(strings.TrimPrefix(importPath, found.module), "/")
	if len(found.packages) > 0 && !slices.Contains(found.packages, sub) {
		return "DEPENDENCIES.md allows only these of its packages: " + strings.Join(found.packages, ", ")
	}
	if inTests && found.inTests {
		return ""
	}
	for _, place := range found.places {
		base, wild := strings.CutSuffix(place, "/...")
		if dir == place || wild && within(dir, base) {
			return ""
		}
	}
	return "DEPENDENCIES.md does not allow it in " + dir
}
