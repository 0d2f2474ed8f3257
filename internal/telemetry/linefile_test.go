package telemetry

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// line is a line of a request log that is told from others by a number.
func line(n int) string { return lineBegin + strconv.Itoa(n) + "}\n" }

func mustOpen(t *testing.T, path string, maxBytes int64) *lineFile {
	t.Helper()
	f, err := openLineFile(path, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	return f
}

func mustWrite(t *testing.T, f *lineFile, lines string) {
	t.Helper()
	if lost, err := f.write([]byte(lines)); lost != 0 || err != nil {
		t.Fatalf("%d lines lost: %v", lost, err)
	}
}

// holds checks what a file holds.
func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", filepath.Base(path), got, want)
	}
}

// A request log is known by how its lines begin.
func TestLinesBegin(t *testing.T) {
	begun, err := logged(hashed()).AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(begun, []byte(lineBegin)) {
		t.Errorf("a line is %s, which does not begin with %s", begun, lineBegin)
	}
}

func TestLineFileContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := mustOpen(t, path, 1<<20)
	mustWrite(t, f, line(1)+line(2))
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, mustOpen(t, path, 1<<20), line(3))
	holds(t, path, line(1)+line(2)+line(3))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode != 0o600 {
		t.Errorf("mode %v, want -rw-------", mode)
	}
}

// A line that was cut short is taken away when the file is opened.
func TestLineFileMends(t *testing.T) {
	long := lineBegin + strings.Repeat("x", 3*4096) + "}\n"
	for _, c := range []struct{ name, had, want string }{
		{"empty", "", ""},
		{"whole", line(1), line(1)},
		{"cut", line(1) + line(2)[:13], line(1)},
		{"cut by the begin of a line", line(1) + line(2)[:3], line(1)},
		{"nothing but a cut line", line(1)[:13], ""},
		{"nothing but the begin of a line", line(1)[:3], ""},
		{"a long line", line(1) + long, line(1) + long},
		{"a long line cut", line(1) + long[:len(long)-1], line(1)},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.had), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(c.name, func(t *testing.T) {
			f := mustOpen(t, path, 1<<20)
			holds(t, path, c.want)
			mustWrite(t, f, line(9))
			holds(t, path, c.want+line(9))
		})
	}
}

// What is not a request log is left alone.
func TestLineFileRefuses(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("root:x:0:0\nno end"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		other:                             "the file is there and is not a request log",
		dir:                               "is a directory",
		filepath.Join(dir, "none", "log"): "no such file or directory",
		filepath.Join(other, "log"):       "not a directory",
		"/dev/null":                       "not a regular file",
	} {
		if _, err := openLineFile(path, 1<<20); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	holds(t, other, "root:x:0:0\nno end")
}

func TestLineFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	size := int64(len(line(1)))
	f := mustOpen(t, path, 2*size)
	mustWrite(t, f, line(1)+line(2))
	if _, err := os.Stat(path + ".1"); err == nil {
		t.Error("a file that is just full was put aside")
	}
	mustWrite(t, f, line(3))
	holds(t, path, line(3))
	holds(t, path+".1", line(1)+line(2))
	// What is opened again counts.
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f = mustOpen(t, path, 2*size)
	mustWrite(t, f, line(4))
	mustWrite(t, f, line(5))
	holds(t, path, line(5))
	holds(t, path+".1", line(3)+line(4))
	// Lines that are too many for one file are one all the same.
	mustWrite(t, f, line(6)+line(7)+line(8))
	holds(t, path, line(6)+line(7)+line(8))
	holds(t, path+".1", line(5))
}

// A file that somebody else renames or removes is begun anew.
func TestLineFileIsMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := mustOpen(t, path, 1<<20)
	mustWrite(t, f, line(1))
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, line(2))
	holds(t, path, line(2))
	holds(t, path+".old", line(1))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, line(3))
	holds(t, path, line(3))
}

// After an error the file is opened anew, once; lines are lost only when that fails too.
func TestLineFileOpensAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := mustOpen(t, path, 1<<20)
	mustWrite(t, f, line(1))
	if err := f.file.Close(); err != nil { // as a disk that comes back
		t.Fatal(err)
	}
	mustWrite(t, f, line(2))
	holds(t, path, line(1)+line(2))

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if lost, err := f.write([]byte(line(3) + line(4))); lost != 2 || err == nil {
		t.Errorf("%d lines lost, want 2: %v", lost, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, line(5))
	holds(t, path, line(5))
}
