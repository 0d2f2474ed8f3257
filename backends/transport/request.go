package transport

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/backends"
)

// Request is what is sent to a backend. It is only read, so it may be sent again
// elsewhere.
type Request struct {
	// Method is the HTTP method, in upper case.
	Method string
	// Path is the path below the backend's base URL, escaped as in a request line.
	Path string
	// RawQuery is the query without its question mark, empty for none.
	RawQuery string
	// Header is what to send, but for what belongs to the connection, which is left
	// out: Connection, Keep-Alive, Proxy-Connection, Upgrade, Transfer-Encoding,
	// Content-Length, Host and Expect. There is no User-Agent unless it is here. No
	// Accept-Encoding is added, and no answer decompressed.
	Header http.Header
	// Body is what to send, nil for nothing. It may be used for something else once
	// Do has failed or the answer's body was closed.
	Body []byte
}

// notSent are the headers that belong to one connection, or that net/http writes.
var notSent = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Transfer-Encoding", "Content-Length", "Host", "Expect",
}

// RankHeader names the data-parallel rank that a request is for.
const RankHeader = "X-Data-Parallel-Rank"

// build makes the request for one backend.
func (r *Request) build(ctx context.Context, b *backends.Backend) (*http.Request, *sentBody, error) {
	u := *b.URL
	path := r.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, nil, err
	}
	u.RawPath = u.EscapedPath() + path
	u.Path += plain
	u.RawQuery = r.RawQuery

	header := maps.Clone(r.Header)
	if header == nil {
		header = make(http.Header, 2)
	}
	for _, name := range notSent {
		delete(header, name)
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // or net/http names itself
	}
	if b.Rank != backends.NoRank {
		header[RankHeader] = []string{strconv.Itoa(b.Rank)}
	}
	req := &http.Request{
		Method:     r.Method,
		URL:        &u,
		Host:       u.Host,
		Header:     header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}
	var sent *sentBody
	if len(r.Body) > 0 {
		sent = &sentBody{rest: r.Body}
		req.Body, req.ContentLength = sent, int64(len(r.Body))
		// GetBody stays nil: with it net/http would send a POST again by itself.
	}
	return req.WithContext(ctx), sent, nil
}

// sentBody is a request's body as net/http reads it. After Close the bytes are not
// touched any more, even where net/http is still writing what it copied of them.
type sentBody struct {
	mu   sync.Mutex
	rest []byte
}

// Read copies, because a caller's buffer must not be lent beyond Close.
func (s *sentBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close gives the bytes up. It may be called again, and while Read runs.
func (s *sentBody) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = nil
	return nil
}
