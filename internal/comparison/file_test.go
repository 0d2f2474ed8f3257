package comparison

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestPendingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	broken, err := newPendingFile(path)
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no more")
	err = broken.write(func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return failure
	})
	broken.discard()
	if !errors.Is(err, failure) || content() != "before" || len(names(t, filepath.Dir(path))) != 1 {
		t.Errorf("after %v there is %q in %v", err, content(), names(t, filepath.Dir(path)))
	}

	whole, err := newPendingFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if content() != "before" {
		t.Errorf("a file that is pending is there: %q", content())
	}
	err = whole.write(func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err })
	whole.discard()
	if err != nil || content() != "after" || len(names(t, filepath.Dir(path))) != 1 {
		t.Errorf("%v: there is %q in %v", err, content(), names(t, filepath.Dir(path)))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != reportMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestPendingFileNowhere(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "absent", "report.html")} {
		if _, err := newPendingFile(path); err == nil {
			t.Errorf("%s can be written", path)
		}
	}
	var none *pendingFile
	if err := none.write(nil); err != nil {
		t.Error(err)
	}
	none.discard()
}
