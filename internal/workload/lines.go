package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Bounds of what a trace may hold, so that a wrong file ends in a message and not
// in the machine's memory.
const (
	// MaxLineBytes bounds one line, unpacked.
	MaxLineBytes = 16 << 20
	// MaxTraceBytes bounds a whole trace, unpacked.
	MaxTraceBytes = 2 << 30
)

// LineError says which line of a trace cannot be used, and why.
type LineError struct {
	// Line counts from 1.
	Line int
	// Err is the reason.
	Err error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// errTooLong is the reason of a line that exceeds [MaxLineBytes].
var errTooLong = fmt.Errorf("longer than %d bytes", MaxLineBytes)

// errTooLarge is the reason of a trace that exceeds [MaxTraceBytes].
var errTooLarge = fmt.Errorf("the trace is larger than %d bytes unpacked", MaxTraceBytes)

// eachLine calls use for every line of r that is not blank, with its number and
// without its end. r is plain or gzip. Byte order marks of UTF-8, which editors put at the
// beginning of files, are passed over, also where such files were joined. The line is valid during the call only. The
// error is a [*LineError].
func eachLine(r io.Reader, use func(line []byte) error) error {
	plain, err := unpack(r)
	if err != nil {
		return &LineError{Line: 1, Err: err}
	}
	bounded := &io.LimitedReader{R: plain, N: MaxTraceBytes + 1}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(make([]byte, 64<<10), MaxLineBytes)
	lines.Split(func(data []byte, ended bool) (int, []byte, error) {
		// What there is of a line when reading fails is not that line.
		return bufio.ScanLines(data, ended && lines.Err() == nil && bounded.N > 0)
	})
	number := 0
	for lines.Scan() {
		number++
		if line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte(utf8Mark))); len(line) > 0 {
			if err := use(line); err != nil {
				return &LineError{Line: number, Err: err}
			}
		}
	}
	err = lines.Err()
	switch {
	case bounded.N <= 0:
		err = errTooLarge
	case errors.Is(err, bufio.ErrTooLong):
		err = errTooLong
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the gzip file is cut short: %w", err)
	case err == nil:
		return nil
	}
	return &LineError{Line: number + 1, Err: err}
}

// gzipMagic is how a gzip file begins.
const gzipMagic = "\x1f\x8b"

// unpack returns what is inside when r is gzip, else r. Content that cannot be lines of text
// is an error that says what it is.
func unpack(r io.Reader) (io.Reader, error) {
	outside := bufio.NewReader(r)
	begin, err := outside.Peek(formatBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.HasPrefix(begin, []byte(gzipMagic)) {
		return outside, refuseFormat(begin)
	}
	unpacked, err := gzip.NewReader(outside)
	if err != nil {
		return nil, fmt.Errorf("not a gzip file after all: %w", err)
	}
	inside := bufio.NewReader(unpacked)
	begin, _ = inside.Peek(formatBytes) // whoever reads on meets the error again
	if err := refuseFormat(begin); err != nil {
		return nil, fmt.Errorf("inside gzip: %w", err)
	}
	return inside, nil
}
