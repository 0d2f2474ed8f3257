package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The example that AWS's documentation works through step by step (GET of IAM's ListUsers,
// "Signature Version 4 signing process"): its credentials, its request and its signature.
const (
	exampleKey    = "AKIDEXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	exampleSum    = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
)

var empty = sha256.Sum256(nil)

// example is that request; change may break it.
func example(change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+exampleKey+"/20150830/us-east-1/iam/aws4_request, "+
		"SignedHeaders=content-type;host;x-amz-date, Signature="+exampleSum)
	if change != nil {
		change(r)
	}
	return r
}

func TestDocumentedExample(t *testing.T) {
	s, err := Parse(example(nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.AccessKeyID != exampleKey || s.Region != "us-east-1" || s.Service != "iam" || !s.CoversBody() || !s.Time.Equal(time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)) {
		t.Errorf("read as %+v", s)
	}
	if err := s.Verify(exampleSecret, empty); err != nil {
		t.Error(err)
	}
	if err := s.Verify(exampleSecret+"x", empty); !errors.Is(err, ErrMismatch) {
		t.Errorf("with another secret: %v", err)
	}
	if err := s.Verify(exampleSecret, sha256.Sum256([]byte("x"))); !errors.Is(err, ErrMismatch) {
		t.Errorf("with another body: %v", err)
	}
}

// Whatever is changed of the request, the signature does not match it any more; what does
// not count may change.
func TestTampering(t *testing.T) {
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   error
	}{
		"method":               {func(r *http.Request) { r.Method = "POST" }, ErrMismatch},
		"path":                 {func(r *http.Request) { r.URL.Path = "/x" }, ErrMismatch},
		"query":                {func(r *http.Request) { r.URL.RawQuery = "Action=DeleteUsers&Version=2010-05-08" }, ErrMismatch},
		"more query":           {func(r *http.Request) { r.URL.RawQuery += "&x=1" }, ErrMismatch},
		"order of the query":   {func(r *http.Request) { r.URL.RawQuery = "Version=2010-05-08&Action=ListUsers" }, nil},
		"spelling of it":       {func(r *http.Request) { r.URL.RawQuery = "Action=List%55sers&Version=2010-05-08" }, nil},
		"host":                 {func(r *http.Request) { r.Host = "evil.example" }, ErrMismatch},
		"a signed header":      {set("Content-Type", "text/plain"), ErrMismatch},
		"spaces in it":         {set("Content-Type", " application/x-www-form-urlencoded;   charset=utf-8 "), nil},
		"a signed header gone": {func(r *http.Request) { r.Header.Del("Content-Type") }, ErrMismatch},
		"another header":       {set("X-Other", "1"), nil},
		"time":                 {set("X-Amz-Date", "20150830T123601Z"), ErrMismatch},
		"day":                  {set("X-Amz-Date", "20150831T123600Z"), ErrMalformed},
		"an unsigned X-Amz":    {set("X-Amz-Security-Token", "t"), ErrMalformed},
		"an unsigned hash":     {set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), ErrMalformed},
		"two times":            {func(r *http.Request) { r.Header.Add("X-Amz-Date", "20150830T123600Z") }, ErrMalformed},
		"no time":              {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, ErrMalformed},
		"two signatures":       {func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }, ErrMalformed},
		"no signature":         {func(r *http.Request) { r.Header.Del("Authorization") }, ErrMissing},
		"a bearer key":         {set("Authorization", "Bearer AWS4-HMAC-SHA256"), ErrMissing},
		"another algorithm":    {set("Authorization", "AWS4-ECDSA-P256-SHA256 Credential=x"), ErrMalformed},
		"nothing behind it":    {set("Authorization", "AWS4-HMAC-SHA256"), ErrMalformed},
		"a query that is none": {func(r *http.Request) { r.URL.RawQuery = "%zz" }, ErrMalformed},
	} {
		s, err := Parse(example(test.change))
		if err == nil {
			err = s.Verify(exampleSecret, empty)
		}
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestMalformedAuthorization(t *testing.T) {
	whole := example(nil).Header.Get("Authorization")
	for old, new := range map[string]string{
		", ":                           "; ",
		"Credential=":                  "Credentials=",
		"Signature=":                   "Signature=0",
		exampleSum:                     strings.Repeat("g", 64),
		"iam/aws4_request":             "aws4_request",
		"/aws4_request":                "/aws4_response",
		"content-type;host":            "content-type",
		"content-type;host;x":          "host;content-type;x",
		";host;":                       ";host;host;",
		"20150830/":                    "20150831/",
		"SignedHeaders=content":        "SignedHeaders=a, SignedHeaders=content",
		"content-type;host;x-amz-date": "content-type;host",
	} {
		text := strings.Replace(whole, old, new, 1)
		if _, err := Parse(example(func(r *http.Request) { r.Header.Set("Authorization", text) })); text == whole || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		} else if strings.Contains(err.Error(), exampleSum) {
			t.Errorf("the error shows the signature: %v", err)
		}
	}
	if _, err := Parse(example(func(r *http.Request) { r.Header.Set("Authorization", strings.ReplaceAll(whole, ", ", ",")) })); err != nil {
		t.Errorf("without spaces: %v", err)
	}
}

// Signatures are good for five minutes around the time they were made.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Signature{Time: time.Now().Add(MaxSkew)}
		for _, step := range []struct {
			wait  time.Duration
			fresh bool
		}{{0, true}, {2 * MaxSkew, true}, {time.Nanosecond, false}} {
			time.Sleep(step.wait)
			if err := s.Fresh(time.Now()); (err == nil) != step.fresh || err != nil && !errors.Is(err, ErrStale) {
				t.Errorf("after %v: %v", step.wait, err)
			}
		}
		s.Time = time.Now().Add(MaxSkew + time.Nanosecond)
		if err := s.Fresh(time.Now()); !errors.Is(err, ErrStale) {
			t.Errorf("from the future: %v", err)
		}
	})
}

func TestPayloads(t *testing.T) {
	body := sha256.Sum256([]byte("hello"))
	sign := func(payload string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "http://router/endpoints/a%20b/invocations", nil)
		r.Header.Set("X-Amz-Date", "20261130T000000Z")
		names := "host;x-amz-date"
		if payload != "" {
			r.Header.Set("X-Amz-Content-Sha256", payload)
			names = "host;x-amz-content-sha256;x-amz-date"
		}
		s := &Signature{date: "20261130", Region: "r", Service: "s", Time: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
		head, err := canonicalHead(r, names)
		if err != nil {
			t.Fatal(err)
		}
		hash := payload
		if payload == "" {
			hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=k/20261130/r/s/aws4_request,SignedHeaders="+names+",Signature="+hex.EncodeToString(s.sign("secret", head+hash)))
		return r
	}
	for payload, want := range map[string]error{
		"": nil,
		"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824": nil, // of hello
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": ErrMismatch,
		"UNSIGNED-PAYLOAD":                   nil,
		"STREAMING-AWS4-HMAC-SHA256-PAYLOAD": ErrMalformed,
		"STREAMING-UNSIGNED-PAYLOAD-TRAILER": ErrMalformed,
		"something else":                     ErrMismatch,
	} {
		s, err := Parse(sign(payload))
		if err == nil {
			if covers := payload != "UNSIGNED-PAYLOAD"; s.CoversBody() != covers {
				t.Errorf("%q covers the body: %v", payload, s.CoversBody())
			}
			err = s.Verify("secret", body)
		}
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%q: %v, want %v", payload, err, want)
		}
	}
}

// Whatever a client sends: no panic, and nothing passes that was not signed.
func FuzzParse(f *testing.F) {
	f.Add(example(nil).Header.Get("Authorization"), "20150830T123600Z", "", "a=b&c")
	f.Add("AWS4-HMAC-SHA256 Credential=////aws4_request,SignedHeaders=host,Signature="+exampleSum, "", "UNSIGNED-PAYLOAD", "%")
	f.Fuzz(func(t *testing.T, authorization, date, payload, query string) {
		r := example(func(r *http.Request) {
			r.Header["Authorization"] = []string{authorization}
			r.Header["X-Amz-Date"] = []string{date}
			r.URL.RawQuery = query
			if payload != "" {
				r.Header["X-Amz-Content-Sha256"] = []string{payload}
			}
		})
		s, err := Parse(r)
		if err != nil {
			if !errors.Is(err, ErrMissing) && !errors.Is(err, ErrMalformed) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if s.Verify("a secret that nobody has", empty) == nil {
			t.Fatal("a signature out of nothing")
		}
	})
}
