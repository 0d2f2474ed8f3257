package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/internal/sigv4"
)

// service is what signatures must be for: the name by which SageMaker's clients sign.
const service = "sagemaker"

// Key is what somebody may use the router with: a bearer token, or an access key that
// requests are signed with.
type Key struct {
	// Name names the key where it is talked of.
	Name string
	// TokenSHA256 is the hash of a bearer token, in hex digits.
	TokenSHA256 string
	// AccessKeyID is the public part of an access key, Secret the other.
	AccessKeyID, Secret string
	// Pools are the pools it is good for; none means all.
	Pools []string
	// Tenant is the tenant id of all its requests; empty leaves it to them.
	Tenant string
	// RequestsPerSecond bounds its requests, of which twice as many, and at least one, may come at once;
	// 0 is no bound.
	RequestsPerSecond float64
}

// holder is a key and how often it may still ask.
type holder struct {
	Key

	limit *rate.Limiter // nil: as often as it likes
}

// Ring holds all keys. It does not change.
type Ring struct {
	byID    map[string]*holder
	byToken map[[sha256.Size]byte]*holder
	now     func() time.Time
}

// New returns the ring of these keys. now is the clock; nil is time.Now. A hash that is none
// lets nobody in.
func New(all []Key, now func() time.Time) *Ring {
	r := &Ring{byID: make(map[string]*holder), byToken: make(map[[sha256.Size]byte]*holder), now: now}
	for _, k := range all {
		h := &holder{Key: k}
		if k.RequestsPerSecond > 0 {
			h.limit = rate.NewLimiter(rate.Limit(k.RequestsPerSecond), max(1, int(2*k.RequestsPerSecond)))
		}
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(k.TokenSHA256)); err == nil && n == len(sum) {
			r.byToken[sum] = h
		}
		if k.AccessKeyID != "" {
			r.byID[k.AccessKeyID] = h
		}
	}
	if now == nil {
		r.now = time.Now
	}
	return r
}

// Admit says who a request is from: by the token that it shows, or by its signature. What it
// says of a signed body holds only once [proxy.Visitor.Check] has said so too; it watches the
// body go by, so the request must be read through r.Body from then on.
func (r *Ring) Admit(req *http.Request) (proxy.Visitor, *proxy.Error) {
	if token := Token(req); token != "" {
		return r.admitToken(token)
	}
	return r.admitSigned(req)
}

// Token is the bearer token of a request, where OpenAI's clients show it, or Anthropic's;
// empty where there is none. An Authorization without a token, as clients send whose own
// setting is empty, hides no other.
func Token(req *http.Request) string {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if token = strings.TrimSpace(token); token != "" {
			return token
		}
	}
	return strings.TrimSpace(req.Header.Get("X-Api-Key"))
}

// admitToken finds whose token it is, by its hash: how long that takes says nothing of any
// token that is good.
func (r *Ring) admitToken(token string) (proxy.Visitor, *proxy.Error) {
	h, known := r.byToken[sha256.Sum256([]byte(token))]
	if !known {
		return proxy.Visitor{}, &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeBadCredentials, Challenge: bearer,
			Message: "the API key is not known here (keys[].token_sha256)",
		}
	}
	if err := h.often(r.now()); err != nil {
		return proxy.Visitor{}, err
	}
	return h.visitor(), nil
}

// visitor is who has the key.
func (h *holder) visitor() proxy.Visitor {
	return proxy.Visitor{Key: h.Name, Pools: h.Pools, Tenant: h.Tenant}
}

// often refuses a key that asks too often.
func (h *holder) often(now time.Time) *proxy.Error {
	if h.limit == nil || h.limit.AllowN(now, 1) {
		return nil
	}
	wait := time.Duration((1 - h.limit.TokensAt(now)) / h.RequestsPerSecond * float64(time.Second))
	return &proxy.Error{
		Status: http.StatusTooManyRequests, Code: proxy.CodeRateLimited, RetryAfter: max(wait, time.Second),
		Message: fmt.Sprintf("the key %q may ask %v times a second (keys[].requests_per_second)", h.Name, h.RequestsPerSecond),
	}
}

// admitSigned finds out who signed a request.
func (r *Ring) admitSigned(req *http.Request) (proxy.Visitor, *proxy.Error) {
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
	visitor := k.visitor()
	body := &watched{from: req.Body, sum: sha256.New()}
	if s.CoversBody() && req.Body != nil && req.Body != http.NoBody {
		req.Body = body
	}
	visitor.Check = func() *proxy.Error {
		if err := s.Verify(k.Secret, body.hash()); err != nil {
			return refused(err)
		}
		return k.often(r.now()) // only whoever has the secret uses it up
	}
	return visitor, nil
}

// The WWW-Authenticate of who is not let in.
const (
	challenge = "AWS4-HMAC-SHA256"
	bearer    = "Bearer"
)

// refused says what is wrong with a signature; nil for nothing.
func refused(err error) *proxy.Error {
	if err == nil {
		return nil
	}
	e := &proxy.Error{Status: http.StatusUnauthorized, Code: proxy.CodeBadSignature, Challenge: challenge, Message: err.Error()}
	if errors.Is(err, sigv4.ErrMissing) {
		e.Code, e.Challenge = proxy.CodeNoCredentials, bearer
		e.Message = "this router wants to know who asks: send an API key (Authorization: Bearer …), or sign the request with an access key (keys)"
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
