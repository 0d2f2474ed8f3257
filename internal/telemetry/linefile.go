package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lineBegin is how every line of a request log begins: a file that begins otherwise is
// somebody else's.
const lineBegin = `{"arrived":`

// previousSuffix names the file that was full before the current one.
const previousSuffix = ".1"

// lineFile is a file of lines with a bound: when it is full it is renamed and a new one
// begun. It implements [sink].
type lineFile struct {
	path     string
	maxBytes int64
	file     *os.File // nil after an error
	size     int64
}

// openLineFile opens or makes a file.
func openLineFile(path string, maxBytes int64) (*lineFile, error) {
	f := &lineFile{path: path, maxBytes: maxBytes}
	return f, f.open()
}

func (f *lineFile) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := mend(file)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.path, err), file.Close())
	}
	f.file, f.size = file, size
	return nil
}

// mend takes away a line that an end of the process or a full disk has cut short, and
// returns the file's size.
func mend(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return 0, errors.New("not a regular file")
	case size == 0:
		return 0, nil
	}
	begin := make([]byte, min(size, int64(len(lineBegin))))
	if _, err := file.ReadAt(begin, 0); err != nil {
		return 0, err
	}
	if !bytes.HasPrefix([]byte(lineBegin), begin) {
		return 0, errors.New("the file is there and is not a request log")
	}
	whole, err := wholeLines(file, size)
	if err == nil && whole < size {
		err = file.Truncate(whole)
	}
	return whole, err
}

// wholeLines is the length of a file up to its last end of a line.
func wholeLines(file io.ReaderAt, size int64) (int64, error) {
	var chunk [4096]byte
	for size > 0 {
		at := max(size-int64(len(chunk)), 0)
		n, err := file.ReadAt(chunk[:size-at], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if end := bytes.LastIndexByte(chunk[:n], '\n'); end >= 0 {
			return at + int64(end) + 1, nil
		}
		size = at
	}
	return 0, nil
}

// write implements [sink]. After an error the file is opened anew and what is not yet in
// it is written once more.
func (f *lineFile) write(lines []byte) (lost int, err error) {
	for range 2 {
		var n int
		if n, err = f.try(lines); err == nil {
			return 0, nil
		}
		lines = lines[bytes.LastIndexByte(lines[:n], '\n')+1:]
		_ = f.close()
	}
	return bytes.Count(lines, []byte("\n")), err
}

// try writes to the file that is there now, and returns how much of the lines.
func (f *lineFile) try(lines []byte) (int, error) {
	if f.moved() {
		_ = f.close()
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && f.size+int64(len(lines)) > f.maxBytes {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	return n, err
}

// moved reports whether somebody else renamed or removed the file.
func (f *lineFile) moved() bool {
	if f.file == nil {
		return false
	}
	ours, err := f.file.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(f.path)
	return err != nil || !os.SameFile(ours, there)
}

// rotate puts the full file aside and begins a new one.
func (f *lineFile) rotate() error {
	if err := f.close(); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.path+previousSuffix); err != nil {
		return err
	}
	return f.open()
}

// close implements [sink].
func (f *lineFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
