package comparison

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// reportMode lets everybody read a report.
const reportMode = 0o644

// pendingFile is a file that is there in full or not at all. A nil one is never there.
type pendingFile struct {
	path string
	temp *os.File
}

// newPendingFile makes sure that a file can be written before there is anything to write. It
// refuses to replace what is in use. Symbolic links stay, and what they point at is
// replaced.
func newPendingFile(path string, inUse ...os.FileInfo) (*pendingFile, error) {
	target, err := replaceable(path, inUse)
	if err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", path, failed.Err)
	}
	if err != nil {
		return nil, err
	}
	return &pendingFile{path: target, temp: temp}, nil
}

// replaceable follows the links of a path to where a file is, or may be.
func replaceable(path string, inUse []os.FileInfo) (target string, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	info, err := os.Stat(path)
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return "", fmt.Errorf("%s: %w", path, failed.Err)
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if slices.ContainsFunc(inUse, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
		return "", fmt.Errorf("%s is the file that is read, or printed to", path)
	}
	return filepath.EvalSymlinks(path)
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
