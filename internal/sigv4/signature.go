package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What may be wrong with a signature. Errors wrap one of these.
var (
	// ErrMissing says that a request has no signature.
	ErrMissing = errors.New("the request is not signed")
	// ErrMalformed says that a signature cannot be read, or leaves out what it must hold.
	ErrMalformed = errors.New("the signature is incomplete")
	// ErrStale says that a signature was made too long ago, or will be in the future.
	ErrStale = errors.New("the signature is not of this time")
	// ErrMismatch says that a signature was not made of this request with this secret.
	ErrMismatch = errors.New("the signature does not match the request")
)

// MaxSkew is how far the clocks of a client and of this program may be apart.
const MaxSkew = 5 * time.Minute

// The words of the protocol.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeFormat = "20060102T150405Z"

	headerDate    = "X-Amz-Date"
	headerPayload = "X-Amz-Content-Sha256"

	unsignedPayload = "UNSIGNED-PAYLOAD"
)

// Signature is what a request says of its own signature. It stays valid whatever becomes
// of the request.
type Signature struct {
	// AccessKeyID names the secret.
	AccessKeyID string
	// Region and Service are what the signature is for.
	Region, Service string
	// Time is when it was made.
	Time time.Time

	date    string // of the scope, yyyymmdd
	sum     []byte
	head    string // the canonical request as far as the payload's hash
	payload string // what the request says of that, empty for nothing
}

// Parse reads the signature of a request. It does not touch the body.
func Parse(r *http.Request) (*Signature, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return nil, ErrMissing
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	switch {
	case len(values) > 1:
		return nil, malformed("there are %d Authorization headers", len(values))
	case !strings.HasPrefix(scheme, "AWS4-"):
		return nil, ErrMissing
	case scheme != algorithm:
		return nil, malformed("the algorithm is not %s", algorithm)
	}
	fields, err := parseFields(rest)
	if err != nil {
		return nil, err
	}
	s := new(Signature)
	if err := s.parseCredential(fields["Credential"]); err != nil {
		return nil, err
	}
	if s.sum, err = hex.DecodeString(fields["Signature"]); err != nil || len(s.sum) != sha256.Size {
		return nil, malformed("Signature is not %d hexadecimal digits", 2*sha256.Size)
	}
	if err := s.parseTime(r.Header[headerDate]); err != nil {
		return nil, err
	}
	if err := s.parsePayload(r.Header[headerPayload]); err != nil {
		return nil, err
	}
	s.head, err = canonicalHead(r, fields["SignedHeaders"])
	return s, err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// parseFields reads Credential=…, SignedHeaders=…, Signature=…, in any order.
func parseFields(text string) (map[string]string, error) {
	fields := make(map[string]string, 3)
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := fields[name]; !ok || twice {
			return nil, malformed("Authorization is not Credential=…, SignedHeaders=…, Signature=…")
		}
		fields[name] = value
	}
	for _, name := range []string{"Credential", "SignedHeaders", "Signature"} {
		if fields[name] == "" {
			return nil, malformed("Authorization has no %s", name)
		}
	}
	return fields, nil
}

// parseCredential reads key/date/region/service/aws4_request.
func (s *Signature) parseCredential(text string) error {
	parts := strings.Split(text, "/")
	if len(parts) != 5 || parts[4] != terminator {
		return malformed("Credential is not KEY/DATE/REGION/SERVICE/%s", terminator)
	}
	s.AccessKeyID, s.date, s.Region, s.Service = parts[0], parts[1], parts[2], parts[3]
	return nil
}

// parseTime reads when the signature was made, which the scope must agree with.
func (s *Signature) parseTime(values []string) (err error) {
	if len(values) != 1 {
		return malformed("there is no %s, or more than one", headerDate)
	}
	if s.Time, err = time.Parse(timeFormat, values[0]); err != nil {
		return malformed("%s is not of the form %s", headerDate, timeFormat)
	}
	if s.date != s.Time.Format("20060102") {
		return malformed("Credential and %s are of different days", headerDate)
	}
	return nil
}

// parsePayload reads what the request says of the hash of its body.
func (s *Signature) parsePayload(values []string) error {
	switch {
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return malformed("there is more than one %s", headerPayload)
	case strings.HasPrefix(values[0], "STREAMING-"):
		return malformed("%s: a body in chunks with signatures of their own is not supported: sign it whole", headerPayload)
	}
	s.payload = values[0]
	return nil
}

// Fresh checks that the signature was made within [MaxSkew] of now.
func (s *Signature) Fresh(now time.Time) error {
	if apart := now.Sub(s.Time); apart > MaxSkew || apart < -MaxSkew {
		return fmt.Errorf("%w: it was made at %s, and it is %s: they may be %v apart", ErrStale,
			s.Time.Format(timeFormat), now.UTC().Format(timeFormat), MaxSkew)
	}
	return nil
}

// CoversBody reports whether the body's hash is part of the signature.
func (s *Signature) CoversBody() bool { return s.payload != unsignedPayload }

// Declared reports whether the request says the hash of its body, or that the body is not
// signed, so that the signature can be verified without it.
func (s *Signature) Declared() bool { return s.payload != "" }

// VerifyDeclared checks that the signature was made with secret of a request whose body is what
// the request says, where it does. Whether it is stays for [Signature.Verify] to check.
func (s *Signature) VerifyDeclared(secret string) error {
	if s.Declared() && !hmac.Equal(s.sum, s.sign(secret, s.head+s.payload)) {
		return ErrMismatch
	}
	return nil
}

// Verify checks that the signature was made with secret of a request whose body has this
// hash. The time it takes does not depend on how much of the signature is right.
func (s *Signature) Verify(secret string, body [sha256.Size]byte) error {
	payload := hex.EncodeToString(body[:])
	switch s.payload {
	case "", payload:
	case unsignedPayload:
		payload = unsignedPayload
	default:
		return fmt.Errorf("%w: the body is not the one of %s", ErrMismatch, headerPayload)
	}
	if !hmac.Equal(s.sum, s.sign(secret, s.head+payload)) {
		return ErrMismatch
	}
	return nil
}

// sign computes the signature of a canonical request.
func (s *Signature) sign(secret, request string) []byte {
	scope := strings.Join([]string{s.date, s.Region, s.Service, terminator}, "/")
	hashed := sha256.Sum256([]byte(request))
	text := strings.Join([]string{algorithm, s.Time.Format(timeFormat), scope, hex.EncodeToString(hashed[:])}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{s.date, s.Region, s.Service, terminator} {
		key = keyed(key, part)
	}
	return keyed(key, text)
}

func keyed(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
