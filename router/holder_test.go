package router

import (
	"testing"

	"github.com/warmroute/warmroute/backends"
)

func TestSplitHolderName(t *testing.T) {
	for _, spec := range []backends.Spec{
		{URL: "http://b1:8000", Rank: backends.NoRank},
		{URL: "https://B1/Some%20Path", Rank: 3},
	} {
		registry, err := backends.NewRegistry(backends.DefaultEjection())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registry.Set([]backends.Spec{spec}); err != nil {
			t.Fatal(err)
		}
		b := registry.Snapshot()[0]
		pool, id, url := SplitHolderName(holderName("pool", b.ID, b.URL.String()))
		if pool != "pool" || id != b.ID || url != b.URL.String() {
			t.Errorf("%s: got %q, %q, %q", spec.URL, pool, id, url)
		}
	}
	for _, name := range []string{"", "b1", "pool b1"} {
		if pool, id, url := SplitHolderName(name); pool != "" || id != name || url != "" {
			t.Errorf("%q: got %q, %q, %q", name, pool, id, url)
		}
	}
}
