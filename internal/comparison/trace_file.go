package comparison

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/workload"
)

// traceFiles are the traces that were read. Each is read once, whatever is swept: what is no
// file can be read no second time.
type traceFiles map[traceFile]*workload.Recording

// traceFile is what a trace is read from, and what of it.
type traceFile struct{ kind, file, pools string }

// read returns a trace of a kind. Errors name the flag and, of a file, lines.
func (t traceFiles) read(ctx context.Context, kind, file string, pools []string) (*workload.Recording, error) {
	key := traceFile{kind, file, fmt.Sprintf("%q", pools)}
	if r := t[key]; r != nil {
		return r, nil
	}
	if info, err := os.Stat(file); len(t) > 0 && err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--trace: %s is not a file that can be read again for another pool: run the command once for each", cli.Name(file))
	}
	f, err := openFile(ctx, file)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("--trace: %s: %w", cli.Name(file), failed.Err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	// Who waits for what comes through a pipe stops waiting; files never wait, and have no
	// deadlines.
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })()
	r, err := workload.Read(kind, interruptible{ctx, f}, pools...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("--trace: %s: %w", cli.Name(file), failed.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("--trace: %s: %w", cli.Name(file), err)
	}
	t[key] = r
	return r, nil
}

// openFile is [os.Open] until a context ends: a FIFO opens when somebody writes to it.
func openFile(ctx context.Context, name string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result)
	go func() {
		file, err := os.Open(name)
		select {
		case opened <- result{file, err}:
		case <-ctx.Done():
			_ = file.Close() // of a nil file: an error, and nothing else
		}
	}()
	select {
	case r := <-opened:
		return r.file, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// interruptible is a reader that stops when a context ends.
type interruptible struct {
	ctx context.Context //nolint:containedctx // a reader has no other way
	r   *os.File
}

// Read implements [io.Reader].
func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}
