package arch

import (
	"os"
	"sync"
	"testing"
)

// checkout loads the repository that this test belongs to, once.
var checkout = sync.OnceValues(func() (*tree, error) { return load(os.DirFS("../..")) })

func TestRepository(t *testing.T) {
	tr, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []struct {
		name  string
		check func(*tree) []string
	}{
		{"layers", func(tr *tree) []string { return checkLayers(tr, layers) }},
		{"purity", func(tr *tree) []string { return checkPurity(tr, layers) }},
		{"package comments", checkPackageComments},
		{"exported docs", checkExportedDocs},
		{"top level", checkTopLevel},
		{"file length", checkFileLength},
		{"final newline", checkFinalNewline},
		{"foreign words", checkForeignWords},
		{"links", checkLinks},
		{"dependencies", func(tr *tree) []string { return checkDependencies(tr, layers) }},
	} {
		t.Run(rule.name, func(t *testing.T) {
			for _, breach := range rule.check(tr) {
				t.Error(breach)
			}
		})
	}
}

// TestTable keeps the layer table itself in order: no place twice, no exception that the general rule grants.
func TestTable(t *testing.T) {
	for i, p := range layers {
		if other, _ := find(layers, p.path); other.path != p.path {
			t.Errorf("layers[%d]: %s is already covered by %s", i, p.path, other.path)
		}
		general := p
		general.also = nil
		for _, dir := range p.also {
			to, ok := find(layers, dir)
			if !ok {
				t.Errorf("layers[%d]: %s may import %s, which has no place", i, p.path, dir)
			}
			if mayImport(general, to, p.path, dir) == "" {
				t.Errorf("layers[%d]: %s may import %s without an exception", i, p.path, dir)
			}
			if why := mayImport(p, to, p.path, dir); why != "" {
				t.Errorf("layers[%d]: the exception for %s to import %s has no effect: %s", i, p.path, dir, why)
			}
		}
	}
}
