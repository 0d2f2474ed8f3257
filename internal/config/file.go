package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errNoFile says that there is something else than a file, which may never end, or never
// begin.
var errNoFile = errors.New("is not a regular file")

// readFile reads a file of at most so many bytes. Of what is no regular file only what a shell
// hands over is read, /dev/stdin and /dev/fd/N: to open another pipe may take for ever.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		failed.Op = "open" // as everybody knows it
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() > most {
		return nil, tooLong(path, info.Size(), most)
	}
	if !info.Mode().IsRegular() && !info.IsDir() && path != "/dev/stdin" && !strings.HasPrefix(path, "/dev/fd/") {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLong(path, int64(len(data)), most)
	}
	return data, err
}

func tooLong(path string, size, most int64) error {
	return fmt.Errorf("%s has %d bytes, at most %d are read", path, size, most)
}
