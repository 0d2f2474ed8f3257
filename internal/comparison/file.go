package comparison

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmroute/warmroute/internal/cli"
)

// reportMode lets everybody read a report whom the process's umask does not keep from it.
const reportMode = 0o644

// pendingFile is a file that is there in full or not at all. A nil one is never there. Until
// it is written nothing of it is on the disk, however the process ends.
type pendingFile struct {
	path string
	mode fs.FileMode // of the file that is replaced, 0 without one
}

// newPendingFile makes sure that a file can be written before there is anything to write. It
// refuses to replace what is in use. Symbolic links stay, and what they point at is
// replaced, which keeps its permissions.
func newPendingFile(path string, inUse ...os.FileInfo) (*pendingFile, error) {
	p, err := replaceable(path, inUse)
	if err != nil {
		return nil, err
	}
	attempt, err := p.create()
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", cli.Name(path), failed.Err)
	}
	if err != nil {
		return nil, err
	}
	return p, errors.Join(attempt.Close(), os.Remove(attempt.Name()))
}

// replaceable follows the links of a path to where a file is, or may be.
func replaceable(path string, inUse []os.FileInfo) (*pendingFile, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return &pendingFile{path: path}, nil
	}
	info, err := os.Stat(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: %w", cli.Name(path), failed.Err)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", cli.Name(path))
	}
	if slices.ContainsFunc(inUse, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil, fmt.Errorf("%s is the file that is read, or printed to", cli.Name(path))
	}
	target, err := filepath.EvalSymlinks(path)
	return &pendingFile{path: target, mode: info.Mode().Perm()}, err
}

// create begins a file beside the one to be.
func (p *pendingFile) create() (*os.File, error) {
	for {
		name := fmt.Sprintf(".%.200s-%08x", filepath.Base(p.path), rand.Uint32())
		file, err := os.OpenFile(filepath.Join(filepath.Dir(p.path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, reportMode)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// write fills the file and puts it in its place.
func (p *pendingFile) write(fill func(io.Writer) error) error {
	if p == nil {
		return nil
	}
	if err := p.replace(fill); err != nil {
		return fmt.Errorf("%s: %w", cli.Name(p.path), err)
	}
	return nil
}

func (p *pendingFile) replace(fill func(io.Writer) error) error {
	file, err := p.create()
	if err != nil {
		return err
	}
	err = fill(file)
	if p.mode != 0 {
		err = errors.Join(err, file.Chmod(p.mode))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), p.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
