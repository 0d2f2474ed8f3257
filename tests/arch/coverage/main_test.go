package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// profile has 4 statements in router, of which 3 are covered once the repeated block counts once, and 1 of 2
// elsewhere.
const profile = `mode: atomic
github.com/warmroute/warmroute/router/route.go:1.1,2.2 3 0
github.com/warmroute/warmroute/router/route.go:3.1,4.2 1 0
github.com/warmroute/warmroute/api/proxy/walk.go:1.1,2.2 1 0
github.com/warmroute/warmroute/api/proxy/walk.go:3.1,4.2 1 7
github.com/warmroute/warmroute/router/route.go:1.1,2.2 3 9
`

func TestRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cover.out")
	if err := os.WriteFile(name, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what        string
		total, root float64
		roots       []string
		want        string // in the error; "" for none
	}{
		{"all met", 66, 75, []string{"router"}, ""},
		{"total missed", 67, 75, []string{"router"}, "total 66.7 % < 67.0 %"},
		{"root missed", 60, 76, []string{"router"}, "router 75.0 % < 76.0 %"},
		{"others may be lower", 60, 75, nil, ""},
		{"root gone", 60, 75, []string{"routing"}, "routing is not in the profile"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			var out bytes.Buffer
			err := run(name, tc.total, tc.root, tc.roots, &out)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("run: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("run = %v, want an error that contains %q", err, tc.want)
			}
			for _, line := range []string{"75.0 %  router (3 of 4 statements)", "50.0 %  api/proxy (1 of 2", "66.7 %  total (4 of 6"} {
				if !strings.Contains(out.String(), line) {
					t.Errorf("the report lacks %q:\n%s", line, out.String())
				}
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	for what, text := range map[string]string{
		"not a profile":       "mode: set\nsomething else entirely here\n",
		"no statement number": "mode: set\na.go:1.1,2.2 x 0\n",
	} {
		name := filepath.Join(dir, "cover.out")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(name, 0, 0, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: run = %v, want an error that names line 2", what, err)
		}
	}
	if err := run(filepath.Join(dir, "missing"), 0, 0, nil, io.Discard); err == nil {
		t.Error("a missing profile: no error")
	}
}
