package comparison

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// reportMode lets everybody read a report.
const reportMode = 0o644

// pendingFile is a file that is there in full or not at all. A nil one is never there.
type pendingFile struct {
	path string
	temp *os.File
}

// newPendingFile makes sure that a file can be written before there is anything to write.
func newPendingFile(path string) (*pendingFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", path, failed.Err)
	}
	if err != nil {
		return nil, err
	}
	return &pendingFile{path: path, temp: temp}, nil
}

// write fills the file and puts it in its place.
func (p *pendingFile) write(fill func(io.Writer) error) error {
	if p == nil {
		return nil
	}
	err := errors.Join(fill(p.temp), p.temp.Chmod(reportMode), p.temp.Close())
	if err == nil {
		err = os.Rename(p.temp.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// discard takes back what is not in its place.
func (p *pendingFile) discard() {
	if p != nil {
		_ = p.temp.Close()
		_ = os.Remove(p.temp.Name())
	}
}
