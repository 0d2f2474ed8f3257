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
	"sync/atomic"
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
	// TokensPerMinute bounds the tokens of its requests and their answers, of which a minute's
	// worth may come at once; 0 is no bound.
	TokensPerMinute int
}

// holder is a key and how much it may still ask for.
type holder struct {
	Key

	limit  *rate.Limiter // nil: as often as it likes
	tokens *bucket       // nil: as much as it likes
}

// Ring holds all keys.
type Ring struct {
	now     func() time.Time
	current atomic.Pointer[holders]
}

// holders are the keys of a ring at a moment. They do not change.
type holders struct {
	byID    map[string]*holder
	byToken map[[sha256.Size]byte]*holder
	byName  map[string]*holder
}

// New returns the ring of these keys. now is the clock; nil is time.Now. A hash that is none
// lets nobody in.
func New(all []Key, now func() time.Time) *Ring {
	r := &Ring{now: now}
	if now == nil {
		r.now = time.Now
	}
	r.current.Store(new(holders))
	r.Replace(all)
	return r
}

// Replace has other keys let in from now on. One of the same name goes on with what it has used
// of its bounds. It must not be called twice at the same time.
func (r *Ring) Replace(all []Key) {
	before := r.current.Load()
	next := &holders{byID: make(map[string]*holder), byToken: make(map[[sha256.Size]byte]*holder), byName: make(map[string]*holder)}
	for _, k := range all {
		h := r.holder(k, before.byName[k.Name])
		next.byName[k.Name] = h
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(k.TokenSHA256)); err == nil && n == len(sum) {
			next.byToken[sum] = h
		}
		if k.AccessKeyID != "" {
			next.byID[k.AccessKeyID] = h
		}
	}
	r.current.Store(next)
}

// holder returns the holder of a key, which goes on from where one before it was; nil for none.
func (r *Ring) holder(k Key, before *holder) *holder {
	h := &holder{Key: k}
	if before == nil {
		before = new(holder)
	}
	if k.RequestsPerSecond > 0 {
		limit, burst := rate.Limit(k.RequestsPerSecond), max(1, int(2*k.RequestsPerSecond))
		if h.limit = before.limit; h.limit == nil {
			h.limit = rate.NewLimiter(limit, burst)
		} else if h.limit.Limit() != limit {
			h.limit.SetLimitAt(r.now(), limit)
			h.limit.SetBurstAt(r.now(), burst)
		}
	}
	if k.TokensPerMinute > 0 {
		if h.tokens = before.tokens; h.tokens == nil {
			h.tokens = newBucket(k.Name, k.TokensPerMinute, r.now)
		} else if before.TokensPerMinute != k.TokensPerMinute {
			h.tokens.change(k.TokensPerMinute)
		}
	}
	return h
}

// Admit says who a request is from: by the token that it shows, or by its signature, which is
// verified at once where the request says the hash of its body. What it says of a signed body holds only once [proxy.Visitor.Check] has said so too; it watches the
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

// Others reports whether a pool is for anybody beside an owner ([proxy.Visitor.Owner]).
func (r *Ring) Others(owner, pool string) bool {
	for _, h := range r.current.Load().byName {
		if v := h.visitor(); v.MayUse(pool) && v.Owner() != owner {
			return true
		}
	}
	return false
}

// AdmitToken is [Ring.Admit] for callers who can show a token only, and whose calls are not all
// bounded: what [proxy.Visitor.Check] of the visitor is asked for counts as a request.
func (r *Ring) AdmitToken(req *http.Request) (proxy.Visitor, *proxy.Error) {
	shown := Token(req)
	if shown == "" {
		return proxy.Visitor{}, &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeNoCredentials, Challenge: bearer,
			Message: "this router wants to know who asks: send an API key, Authorization: Bearer … (keys)",
		}
	}
	h, err := r.whose(shown)
	if err != nil {
		return proxy.Visitor{}, err
	}
	visitor := h.visitor()
	visitor.Check = func() *proxy.Error { return h.often(r.now()) }
	return visitor, nil
}

// whose finds whose token it is, by its hash: how long that takes says nothing of any token
// that is good.
func (r *Ring) whose(token string) (*holder, *proxy.Error) {
	h, known := r.current.Load().byToken[sha256.Sum256([]byte(token))]
	if !known {
		return nil, &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeBadCredentials, Challenge: bearer,
			Message: "the API key is not known here (keys[].token_sha256)",
		}
	}
	return h, nil
}

// admitToken lets in whoever has a token.
func (r *Ring) admitToken(token string) (proxy.Visitor, *proxy.Error) {
	h, err := r.whose(token)
	if err != nil {
		return proxy.Visitor{}, err
	}
	if err := h.often(r.now()); err != nil {
		return proxy.Visitor{}, err
	}
	return h.visitor(), nil
}

// visitor is who has the key.
func (h *holder) visitor() proxy.Visitor {
	v := proxy.Visitor{Key: h.Name, Pools: h.Pools, Tenant: h.Tenant}
	if h.tokens != nil {
		v.Tokens = h.tokens
	}
	return v
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
	k, known := r.current.Load().byID[s.AccessKeyID]
	if !known {
		return proxy.Visitor{}, &proxy.Error{
			Status: http.StatusUnauthorized, Code: proxy.CodeBadCredentials, Challenge: challenge,
			Message: "the access key id is not known here (keys[].access_key_id)",
		}
	}
	if err := s.VerifyDeclared(k.Secret); err != nil {
		return proxy.Visitor{}, refused(err)
	}
	visitor := k.visitor()
	visitor.Unverified = !s.Declared()
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
