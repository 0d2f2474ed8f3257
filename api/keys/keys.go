package keys

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/internal/sigv4"
)

// service is what signatures must be for: the name by which SageMaker's clients sign.
const service = "sagemaker"

// Key is what somebody may use the router with.
type Key struct {
	// Name names the key where it is talked of.
	Name string
	// AccessKeyID is its public part, Secret the other.
	AccessKeyID, Secret string
	// Pools are the pools it is good for; none means all.
	Pools []string
}

// Ring holds all keys. It does not change.
type Ring struct {
	byID map[string]Key
	now  func() time.Time
}

// New returns the ring of these keys. now is the clock; nil is time.Now.
func New(all []Key, now func() time.Time) *Ring {
	r := &Ring{byID: make(map[string]Key, len(all)), now: now}
	for _, k := range all {
		r.byID[k.AccessKeyID] = k
	}
	if now == nil {
		r.now = time.Now
	}
	return r
}

// Admit says who a request is from. What it says of a signed body holds only once
// [proxy.Visitor.Check] has said so too; it watches the body go by, so the request must
// be read through r.Body from then on.
func (r *Ring) Admit(req *http.Request) (proxy.Visitor, *proxy.Error) {
	s, err := sigv4.Parse(req)
	if err != nil {
		return proxy.Visitor{}, refused(err)
	}
	if s.Service != service {
		return proxy.Visitor{}, refused(fmt.Errorf("%w: it is for the service %q, not %q", sigv4.ErrMalformed, printed(s.Service), service))
	}
	if err := s.Fresh(r.now()); err != nil {
		return proxy.Visitor{}, refused(err)
	}
	k, known := r.byID[s.AccessKeyID]
	if !known {
		return proxy.Visitor{}, &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeBadCredentials, Challenge: challenge,
			Message: "the access key id is not known here (keys[].access_key_id)",
		}
	}
	visitor := proxy.Visitor{Key: k.Name, Pools: k.Pools}
	body := &watched{from: req.Body, sum: sha256.New()}
	if s.CoversBody() && req.Body != nil && req.Body != http.NoBody {
		req.Body = body
	}
	visitor.Check = func() *proxy.Error { return refused(s.Verify(k.Secret, body.hash())) }
	return visitor, nil
}

// challenge is the WWW-Authenticate of who is not let in.
const challenge = "AWS4-HMAC-SHA256"

// refused says what is wrong with a signature; nil for nothing.
func refused(err error) *proxy.Error {
	if err == nil {
		return nil
	}
	e := &proxy.Error{Status: http.StatusUnauthorized, Code: proxy.CodeBadSignature, Challenge: challenge, Message: err.Error()}
	if errors.Is(err, sigv4.ErrMissing) {
		e.Code, e.Message = proxy.CodeNoCredentials, "this router wants to know who asks: sign the request with an access key (keys)"
	}
	return e
}

// watched hashes a body as it is read.
type watched struct {
	from io.ReadCloser
	sum  hash.Hash
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.sum.Write(p[:n])
	return n, err
}

func (w *watched) Close() error { return w.from.Close() }

// hash is the hash of what was read.
func (w *watched) hash() (sum [sha256.Size]byte) {
	w.sum.Sum(sum[:0])
	return sum
}

// printed bounds what is repeated of a client's words.
func printed(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
