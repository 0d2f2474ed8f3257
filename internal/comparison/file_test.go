package comparison

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	if err != nil || content() != "after" || len(names(t, filepath.Dir(path))) != 1 {
		t.Errorf("%v: there is %q in %v", err, content(), names(t, filepath.Dir(path)))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file that was replaced is now %v, %v", info.Mode(), err)
	}
}

// Until there is something to write, nothing is there that an end of the process would leave.
func TestPendingFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := newPendingFile(filepath.Join(dir, "report.html")); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); left != nil {
		t.Errorf("there is %v", left)
	}
}

// A new file may be read by whom the umask lets.
func TestPendingFileRespectsTheUmask(t *testing.T) {
	for umask, want := range map[int]fs.FileMode{0o022: 0o644, 0o077: 0o600, 0o026: 0o640} {
		path := filepath.Join(t.TempDir(), "report.html")
		before := syscall.Umask(umask)
		p, err := newPendingFile(path)
		if err == nil {
			err = p.write(func(io.Writer) error { return nil })
		}
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("umask %03o: mode %v, %v, want %v", umask, info.Mode(), err, want)
		}
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
}
