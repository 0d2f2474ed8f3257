package proxy

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/warmroute/warmroute/api/intake"
)

const (
	// firstRead is how large a buffer is made for a body of unknown length.
	firstRead = 16 << 10
	// keepBody is the largest buffer that is kept for other requests.
	keepBody = 1 << 20
	// maxPresize bounds what is allocated on the word of a Content-Length alone.
	maxPresize = 64 << 10
	// drainTime bounds how long the rest of a body is read that is not taken, so
	// that a client that sends before it reads gets to see the answer.
	drainTime = 2 * time.Second
	// maxWindow is the largest zstd window accepted, in bytes; the format's own
	// recommendation is that decoders accept 8 MiB.
	maxWindow = 8 << 20
)

// payload is a request body that has been read. It holds its share of the budget of all
// bodies until release.
type payload struct {
	intake.Share

	unverified intake.Share // of those who are not known yet; closed for others
	late       bool         // it is open

	buf   *[]byte // pooled; nil when the body has none
	bytes []byte
}

var bodyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// release gives up the body. The bytes must not be used afterwards.
func (b *payload) release() {
	b.Release()
	b.unverified.Release()
	if b.buf != nil {
		if cap(b.bytes) <= keepBody {
			*b.buf = b.bytes[:0]
		} else {
			*b.buf = nil
		}
		bodyBuffers.Put(b.buf)
		b.buf, b.bytes = nil, nil
	}
}

// errBusy and errTooLarge end the reading of a body.
var (
	errBusy     = errors.New("no room for the body")
	errTooLarge = errors.New("the body is too large")
)

// readAll reads a body of at most limit bytes into b. size is what is known of its
// length, -1 for nothing; the budget is charged with what arrives, not with what was
// announced.
func (b *payload) readAll(from io.Reader, size, limit int64) error {
	if want := min(size, maxPresize-1) + 1; int64(cap(b.bytes)) < want { // one more, to see the end
		b.bytes = make([]byte, 0, want)
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			b.grow(size, limit)
		}
		n, err := from.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > limit:
			return errTooLarge
		case !b.Hold(int64(len(b.bytes))), b.late && !b.unverified.Hold(int64(len(b.bytes))):
			return errBusy
		case err == io.EOF: //nolint:errorlint // a wrapped EOF is a failure
			return nil
		case err != nil:
			return err
		}
	}
}

func (b *payload) grow(size, limit int64) {
	if size < 0 {
		size = limit
	}
	larger := min(max(2*int64(cap(b.bytes)), firstRead)-1, size) + 1
	b.bytes = append(make([]byte, 0, larger), b.bytes...)
}

// readBody reads the request's body whole, decoded.
func (x *exchange) readBody() *Error {
	x.payload.Open(x.p.bodies)
	if x.payload.late = x.visitor.Unverified; x.payload.late {
		x.payload.unverified.Open(x.p.unverified)
	}
	x.payload.buf = bodyBuffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in the pool
	x.payload.bytes = (*x.payload.buf)[:0]
	limit := x.bodyLimit().Bytes
	counted := &countingReader{from: x.r.Body}
	defer func() { x.record.RequestBytes = counted.n }()
	if x.r.ContentLength != 0 { // else net/http waits for the client to leave already
		counted.stall = &x.stall
		defer x.stall.Sent()
	}
	size := x.r.ContentLength
	if size > limit {
		x.drain(counted)
		return x.tooLarge()
	}
	var from io.Reader = counted
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(x.r.Header["Content-Encoding"], ",")))
	if encoding != "" && encoding != "identity" {
		decoder, err := decode(encoding, counted, limit)
		if counted.err != nil { // the decoder read its header, or tried to
			return x.bodyError(counted.err, counted)
		}
		if err != nil {
			return err
		}
		defer decoder.Close()
		from, size, x.decoded = decoder, -1, true
	}
	return x.bodyError(x.payload.readAll(from, size, limit), counted)
}

// bodyError says what an error of reading the body means to the client.
func (x *exchange) bodyError(err error, rest *countingReader) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooLarge), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		x.drain(rest)
		return x.tooLarge()
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return invalid(fmt.Sprintf("zstd body wants a window of more than %d bytes", maxWindow))
	case errors.Is(err, errBusy):
		x.drain(rest)
		x.w.Header().Set("Connection", "close")
		return x.busy()
	case errors.Is(rest.err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close")
		message := fmt.Sprintf("request body paused for more than %v", intake.SendStall)
		if x.stall.Slow {
			message = fmt.Sprintf("request body comes too slowly: it may take %v and one second for each %d KiB", intake.SendStall, intake.SendRate>>10)
		}
		return &Error{Status: http.StatusRequestTimeout, Code: CodeRequestTimeout, Message: message}
	case x.r.Context().Err() != nil, rest.err != nil && isDisconnect(rest.err):
		return x.gone()
	case rest.err == nil: // the client sent what it meant to send
		return invalid("request body cannot be decoded: its content does not match its content-encoding")
	}
	return invalid("request body cannot be read: its transfer encoding is broken")
}

func isDisconnect(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "chunk")
}

// bodyLimit is the bound on the request's body.
func (x *exchange) bodyLimit() BodyLimit {
	if x.call.Body.Bytes > 0 {
		return x.call.Body
	}
	return BodyLimit{Bytes: x.p.options.Limits.BodyBytes, Setting: "limits.body_bytes"}
}

func (x *exchange) tooLarge() *Error {
	x.w.Header().Set("Connection", "close") // what is left of the body is not waited for
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge,
		Message: fmt.Sprintf("request body is larger than %d bytes (%s)", x.bodyLimit().Bytes, x.bodyLimit().Setting),
	}
}

func (x *exchange) busy() *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: time.Second,
		Message: fmt.Sprintf("too many request bodies at once: they are limited to %d bytes together (limits.bodies_in_flight_bytes)", x.p.bodies.Limit()),
	}
}

// drain lets go of a body that is not taken, and reads on for a while and keeps
// nothing. A client that waits to be told to go on has sent nothing yet.
func (x *exchange) drain(rest *countingReader) {
	x.payload.release()
	if rest.n == 0 && mentions(x.r.Header["Expect"], "100-continue") {
		return
	}
	rest.stall = nil
	if x.stall.Control.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, rest, x.bodyLimit().Bytes) // whatever comes of it
	x.stall.Sent()
}

// countingReader counts what a client sent, bounds the time it takes, and keeps its
// error apart from those of decoders.
type countingReader struct {
	from  io.Reader
	stall *stall // nil for no bound
	n     int64
	err   error // other than io.EOF
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.stall != nil {
		c.stall.Send(c.n)
	}
	n, err := c.from.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
		c.err = err
	}
	return n, err
}

// decode undoes a content encoding. The decoder reads no more than it is asked for,
// so bounding its output bounds its work.
func decode(encoding string, from io.Reader, limit int64) (io.ReadCloser, *Error) {
	switch encoding {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, invalid("request body is not gzip, although its content-encoding says so")
		}
		return z, nil
	case "zstd":
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(uint64(max(limit, maxWindow))))
		if err != nil {
			return nil, invalid("request body is not zstd, although its content-encoding says so")
		}
		return z.IOReadCloser(), nil
	}
	return nil, &Error{
		Status: http.StatusUnsupportedMediaType, Code: CodeUnsupportedEncoding,
		Message: fmt.Sprintf("content-encoding %q is not supported: want gzip, zstd or none", printed(encoding)),
	}
}

// printed bounds what is repeated of a client's words.
func printed(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
