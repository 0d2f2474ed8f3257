package keys_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/warmroute/warmroute/api/keys"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/api/sagemaker"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sign signs a request as AWS's clients do: SageMaker's, for the host, the time and the
// body.
func sign(r *http.Request, id, secret, service string, at time.Time, body []byte) *http.Request {
	r.Header.Set("X-Amz-Date", at.UTC().Format("20060102T150405Z"))
	day, sum := at.UTC().Format("20060102"), func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, "host:" + r.Host, "x-amz-date:" + r.Header.Get("X-Amz-Date"), "", "host;x-amz-date", sum(body),
	}, "\n")
	scope := day + "/us-east-1/" + service + "/aws4_request"
	key := []byte("AWS4" + secret)
	for _, part := range []string{day, "us-east-1", service, "aws4_request", "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + sum([]byte(canonical))} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=host;x-amz-date, Signature=%x", id, scope, key))
	return r
}

// fleet is a router with two pools, and keys for one of them and for both.
type fleet struct {
	t       *testing.T
	handler http.Handler
	asked   atomic.Int64 // requests that reached the engine
}

func start(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		f.asked.Add(1)
		if h := r.Header.Get("Authorization") + r.Header.Get("X-Amz-Date"); h != "" {
			t.Errorf("the engine got %s", h)
		}
		io.WriteString(w, `{}`)
	}))
	t.Cleanup(engine.Close)
	r := router.New(router.Options{})
	var variants []sagemaker.Variant
	for _, name := range []string{"one", "two"} {
		pool, err := r.AddPool(router.PoolSpec{
			Name: name, Models: []router.ModelSpec{{Name: "m-" + name}}, Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(),
			Backends: []backends.Spec{{URL: engine.URL, Rank: backends.NoRank}},
		})
		if err != nil {
			t.Fatal(err)
		}
		variants = append(variants, sagemaker.Variant{Endpoint: name, Name: name, Weight: 1, Pool: pool})
	}
	carrier := transport.New(transport.Config{})
	t.Cleanup(carrier.Close)
	ring := keys.New([]keys.Key{
		{Name: "all", AccessKeyID: "AKALL", Secret: "secret of all"},
		{Name: "first", AccessKeyID: "AKONE", Secret: "secret of one", Pools: []string{"one"}},
		{Name: "token", TokenSHA256: hashed("token of one"), Pools: []string{"one"}},
		{Name: "tenant", TokenSHA256: hashed("token of tenant"), Tenant: "mine"},
	}, nil)
	p, err := proxy.New(proxy.Options{Router: r, Transport: carrier, Admit: ring.Admit, DecisionHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	openai.Register(mux, p)
	sagemaker.Register(mux, sagemaker.Options{Proxy: p, Variants: variants, BodyBytes: 1 << 20, Random: func() uint64 { return 1 }})
	f.handler = mux
	return f
}

func (f *fleet) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "http://router.example"+path, strings.NewReader(body))
}

const (
	one = "/endpoints/one/invocations"
	two = "/endpoints/two/invocations"
)

func TestAdmission(t *testing.T) {
	f, now := start(t), time.Now()
	signed := func(path, body, id, secret string) *http.Request {
		return sign(post(path, body), id, secret, "sagemaker", now, []byte(body))
	}
	for _, test := range []struct {
		name   string
		r      *http.Request
		status int
		kind   string // SageMaker's, or OpenAI's code
	}{
		{"a good key", signed(one, "{}", "AKALL", "secret of all"), 200, ""},
		{"on another path", signed("/v1/chat/completions", `{"model":"m-one","messages":[]}`, "AKALL", "secret of all"), 200, ""},
		{"without a body", signed(one, "", "AKALL", "secret of all"), 200, ""},
		{"for its pool", signed(one, "{}", "AKONE", "secret of one"), 200, ""},
		{"for another pool", signed(two, "{}", "AKONE", "secret of one"), 403, "AccessDeniedException"},
		{"for another pool's model", signed("/v1/chat/completions", `{"model":"m-two","messages":[]}`, "AKONE", "secret of one"), 403, "forbidden"},
		{"nothing", post(one, "{}"), 403, "MissingAuthenticationTokenException"},
		{"nothing on another path", post("/v1/chat/completions", "{}"), 401, "missing_credentials"},
		{"an unknown key", signed(one, "{}", "AKNONE", "secret of all"), 403, "UnrecognizedClientException"},
		{"the secret of another", signed(one, "{}", "AKALL", "secret of one"), 403, "InvalidSignatureException"},
		{"another body", sign(post(one, "{ }"), "AKALL", "secret of all", "sagemaker", now, []byte("{}")), 403, "InvalidSignatureException"},
		{"another service", sign(post(one, "{}"), "AKALL", "secret of all", "s3", now, []byte("{}")), 403, "InvalidSignatureException"},
		{"an old signature", sign(post(one, "{}"), "AKALL", "secret of all", "sagemaker", now.Add(-6*time.Minute), []byte("{}")), 403, "InvalidSignatureException"},
		{"a signature of the future", sign(post(one, "{}"), "AKALL", "secret of all", "sagemaker", now.Add(6*time.Minute), []byte("{}")), 403, "InvalidSignatureException"},
		{"a path that nobody has", post("/nothing", ""), 401, "missing_credentials"},
		{"the list of models", httptest.NewRequest(http.MethodGet, "/v1/models", nil), 401, "missing_credentials"},
		{"a method that the path has not", httptest.NewRequest(http.MethodGet, one, nil), 403, "MissingAuthenticationTokenException"},
		{"a body that is left unread", sign(post("/nothing", "x"), "AKALL", "secret of all", "sagemaker", now, []byte("y")), 401, "invalid_signature"},
		{"and one that is right", sign(post("/nothing", "x"), "AKALL", "secret of all", "sagemaker", now, []byte("x")), 404, "not_found"},
		{"health", httptest.NewRequest(http.MethodGet, "/health", nil), 200, ""},
		{"ping", httptest.NewRequest(http.MethodGet, "/ping", nil), 200, ""},
	} {
		asked := f.asked.Load()
		w := f.do(test.r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.kind) {
			t.Errorf("%s: got %d %s, want %d %s", test.name, w.Code, w.Body, test.status, test.kind)
		}
		if reached := f.asked.Load() > asked; reached != (test.status == 200 && test.r.Method == http.MethodPost) {
			t.Errorf("%s: the engine was asked: %v", test.name, reached)
		}
		if given := w.Header().Get("WWW-Authenticate") != ""; given != (w.Code == http.StatusUnauthorized) {
			t.Errorf("%s: WWW-Authenticate %q", test.name, w.Header().Get("WWW-Authenticate"))
		}
		for _, secret := range []string{"secret of", "Signature=", "AKALL", "AKNONE"} {
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s: the answer shows %q: %s", test.name, secret, w.Body)
			}
		}
		if w.Header().Get("X-Warmroute-Predicted-Cached-Tokens") != "" { // MT-05
			t.Errorf("%s: the answer tells what others asked", test.name)
		}
	}
}

// hashed is the hash of a token as the configuration has it.
func hashed(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// TestTokens: API keys are shown as OpenAI's clients show them, or Anthropic's; each is good for
// its pools, and what is wrong is said in the client's dialect, with no key in it (AU-05).
func TestTokens(t *testing.T) {
	f := start(t)
	chat := func(model string, header ...string) *http.Request {
		r := post("/v1/chat/completions", `{"model":"`+model+`","messages":[]}`)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		return r
	}
	for _, test := range []struct {
		name   string
		r      *http.Request
		status int
		text   string
	}{
		{"bearer", chat("m-one", "Authorization", "Bearer token of one"), 200, ""},
		{"in lower case", chat("m-one", "Authorization", "bearer  token of one "), 200, ""},
		{"x-api-key", chat("m-one", "X-Api-Key", "token of one"), 200, ""},
		{"x-api-key beside an empty bearer", chat("m-one", "Authorization", "Bearer ", "X-Api-Key", " token of one "), 200, ""},
		{"x-api-key beside a wrong one", chat("m-one", "Authorization", "Bearer token", "X-Api-Key", "token of one"), 401, "invalid_api_key"},
		{"another pool", chat("m-two", "Authorization", "Bearer token of one"), 403, "forbidden"},
		{"a wrong one", chat("m-one", "Authorization", "Bearer token of on"), 401, "invalid_api_key"},
		{"its hash", chat("m-one", "Authorization", "Bearer "+hashed("token of one")), 401, "invalid_api_key"},
		{"an empty one", chat("m-one", "Authorization", "Bearer "), 401, "missing_credentials"},
		{"another scheme", chat("m-one", "Authorization", "Basic dG9rZW4="), 401, ""},
		{"none", chat("m-one"), 401, "missing_credentials"},
	} {
		asked := f.asked.Load()
		w := f.do(test.r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.text) {
			t.Errorf("%s: got %d %s, want %d %s", test.name, w.Code, w.Body, test.status, test.text)
		}
		if reached := f.asked.Load() > asked; reached != (test.status == 200) {
			t.Errorf("%s: the engine was asked: %v", test.name, reached)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", test.name)
		}
		if strings.Contains(w.Body.String(), "token of") {
			t.Errorf("%s: the answer shows a token: %s", test.name, w.Body)
		}
	}
}

// TestRate: a key asks as often as it may, by the clock, and others do not notice. A signature
// that is wrong uses nothing up.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := keys.New([]keys.Key{
			{Name: "slow", TokenSHA256: hashed("slow"), RequestsPerSecond: 2},
			{Name: "other", TokenSHA256: hashed("other")},
			{Name: "signed", AccessKeyID: "AK", Secret: "s", RequestsPerSecond: 1},
		}, nil)
		admit := func(token string) *proxy.Error {
			r := post("/v1/chat/completions", "")
			r.Header.Set("Authorization", "Bearer "+token)
			_, err := ring.Admit(r)
			return err
		}
		for i := range 4 {
			if err := admit("slow"); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
		err := admit("slow")
		if err == nil || err.Status != 429 || err.Code != proxy.CodeRateLimited || err.RetryAfter < time.Second {
			t.Errorf("one too many: %+v", err)
		}
		for range 100 {
			if err := admit("other"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(500 * time.Millisecond)
		if err := admit("slow"); err != nil {
			t.Errorf("half a second later: %v", err)
		}
		signed := func(secret string) *proxy.Error {
			v, err := ring.Admit(sign(post(one, ""), "AK", secret, "sagemaker", time.Now(), nil))
			if err != nil {
				return err
			}
			return v.Check()
		}
		for range 10 {
			if err := signed("wrong"); err == nil || err.Code != proxy.CodeBadSignature {
				t.Errorf("a wrong secret: %v", err)
			}
		}
		if a, b, c := signed("s"), signed("s"), signed("s"); a != nil || b != nil || c == nil {
			t.Errorf("signed requests: %v, %v, %v", a, b, c)
		}
	})
}

// TestTenantOfAKey: the key says whose requests they are, whatever they say themselves.
func TestTenantOfAKey(t *testing.T) {
	ring := keys.New([]keys.Key{{Name: "k", TokenSHA256: hashed("t"), Tenant: "mine"}}, nil)
	r := post(one, "{}")
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("X-Amzn-SageMaker-Prefix-Aware-Id", "theirs")
	v, err := ring.Admit(r)
	if err != nil || v.Tenant != "mine" || v.Key != "k" {
		t.Errorf("%+v, %v", v, err)
	}
}

// What is signed is the body as it was sent, compressed or not.
func TestCompressedBody(t *testing.T) {
	f := start(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, `{"messages":[]}`)
	z.Close()
	whole := b.String()
	for _, test := range []struct {
		name, sent, signed string
		want               int
	}{
		{"as it was sent", whole, whole, 200},
		{"as it reads", whole, `{"messages":[]}`, 403},
		{"with something behind it", whole + "\x00", whole, 400},
		{"cut short", whole[:len(whole)-1], whole[:len(whole)-1], 400},
	} {
		r := post(one, test.sent)
		r.Header.Set("Content-Encoding", "gzip")
		if w := f.do(sign(r, "AKALL", "secret of all", "sagemaker", time.Now(), []byte(test.signed))); w.Code != test.want {
			t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
		}
	}
}

// A signature is good for five minutes, by the ring's own clock.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := keys.New([]keys.Key{{Name: "k", AccessKeyID: "AK", Secret: "s"}}, nil)
		made := time.Now()
		admit := func() *proxy.Error {
			v, err := ring.Admit(sign(post(one, ""), "AK", "s", "sagemaker", made, nil))
			if err == nil {
				err = v.Check()
			}
			return err
		}
		time.Sleep(5 * time.Minute)
		if err := admit(); err != nil {
			t.Errorf("after five minutes: %v", err)
		}
		time.Sleep(time.Second)
		if err := admit(); err == nil || err.Code != proxy.CodeBadSignature || !strings.Contains(err.Message, "5m0s apart") {
			t.Errorf("later: %v", err)
		}
	})
}

// TestTokensPerMinute: a bound on a key's tokens by the minute, by the clock: a prompt takes what it is thought
// to have, and what was used in the end counts.
func TestTokensPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := keys.New([]keys.Key{
			{Name: "k", TokenSHA256: hashed("k"), TokensPerMinute: 6000}, // 100 a second
			{Name: "other", TokenSHA256: hashed("other")},
		}, nil)
		tokens := func() proxy.Tokens {
			r := post(one, "")
			r.Header.Set("Authorization", "Bearer k")
			v, err := ring.Admit(r)
			if err != nil {
				t.Fatal(err)
			}
			return v.Tokens
		}
		take := func(n int, wait time.Duration) {
			t.Helper()
			err := tokens().Take(n)
			switch {
			case wait == 0 && err != nil, wait > 0 && err == nil:
				t.Errorf("%d tokens: %v", n, err)
			case wait > 0 && (err.Status != 429 || err.Code != proxy.CodeRateLimited || (err.RetryAfter-wait).Abs() > time.Millisecond):
				t.Errorf("%d tokens: %+v, want a wait of %v", n, err, wait)
			}
		}
		take(4000, 0)
		take(2000, 0)
		take(500, 5*time.Second)
		time.Sleep(5 * time.Second)
		take(500, 0)
		tokens().Settle(500, 1500) // the answer was long: 1,000 in debt
		take(1, 10*time.Second+10*time.Millisecond)
		time.Sleep(10 * time.Second)
		take(100, time.Second)
		tokens().Settle(4000, 0) // one of before never reached an engine
		take(4000, 0)
		time.Sleep(2 * time.Hour)
		tokens().Settle(6000, 0) // there is never more than a minute's worth
		take(6000, 0)
		take(1, time.Second)

		// A prompt of more than a minute's worth has to find all of it, and is paid for later.
		time.Sleep(59 * time.Second)
		take(15000, time.Second)
		time.Sleep(time.Second)
		take(15000, 0)
		take(1, 90*time.Second+10*time.Millisecond)
		time.Sleep(2 * time.Hour)
		tokens().Settle(0, 1<<40) // nonsense of an engine
		take(1, 59*time.Minute)
		r := post(one, "")
		r.Header.Set("Authorization", "Bearer other")
		if v, err := ring.Admit(r); err != nil || v.Tokens != nil {
			t.Errorf("another key: %v, %v", v.Tokens, err)
		}
	})
}

// Keys are replaced while they are used: one of the same name goes on with what it has used, one
// that is gone is let in no more, and a new one is.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := []keys.Key{
			{Name: "same", TokenSHA256: hashed("same"), RequestsPerSecond: 1, TokensPerMinute: 600},
			{Name: "tighter", TokenSHA256: hashed("tighter"), TokensPerMinute: 6000},
			{Name: "gone", TokenSHA256: hashed("gone")},
			{Name: "signed", AccessKeyID: "AK", Secret: "s"},
		}
		ring := keys.New(first, nil)
		admit := func(token string) (proxy.Visitor, *proxy.Error) {
			r := post(one, "")
			r.Header.Set("Authorization", "Bearer "+token)
			return ring.Admit(r)
		}
		in := func(token string, want bool) proxy.Visitor {
			t.Helper()
			v, err := admit(token)
			if (err == nil) != want {
				t.Errorf("%s: %v", token, err)
			}
			return v
		}
		same := in("same", true)
		in("same", true)
		in("same", false) // two a second at once
		if err := same.Tokens.Take(600); err != nil {
			t.Fatal(err)
		}
		tight := in("tighter", true)
		if err := tight.Tokens.Take(5000); err != nil {
			t.Fatal(err)
		}
		ring.Replace([]keys.Key{
			first[0], {Name: "tighter", TokenSHA256: hashed("another token"), TokensPerMinute: 600}, {Name: "new", TokenSHA256: hashed("new")},
		})
		in("gone", false)
		in("tighter", false)
		in("new", true)
		in("same", false)
		if _, err := ring.Admit(sign(post(one, ""), "AK", "s", "sagemaker", time.Now(), nil)); err == nil {
			t.Error("an access key that is gone is let in")
		}
		time.Sleep(time.Second)
		if err := in("same", true).Tokens.Take(100); err == nil {
			t.Error("what was used is forgotten")
		}
		if err := in("another token", true).Tokens.Take(600); err != nil { // 1,000 were left, 600 fit
			t.Errorf("after a bound that is tighter: %v", err)
		}
		if err := in("another token", true).Tokens.Take(600); err == nil {
			t.Error("the tighter bound does not hold")
		}
	})
}

// A signature whose request says the hash of its body is verified before any of that is read, and
// what is read must be that body.
func TestDeclaredBody(t *testing.T) {
	f, now := start(t), time.Now()
	declared := func(body, says, secret string) (*http.Request, *pieces) {
		from := &pieces{text: body}
		r := httptest.NewRequest(http.MethodPost, "http://router.example"+one, from)
		r.ContentLength = int64(len(body))
		sum := hashed(says)
		r.Header.Set("X-Amz-Content-Sha256", sum)
		r.Header.Set("X-Amz-Date", now.UTC().Format("20060102T150405Z"))
		signDeclared(r, "AKALL", secret, now, sum)
		return r, from
	}
	for _, test := range []struct {
		name, body, says, secret string
		status                   int
		read                     bool
	}{
		{"right", "{}", "{}", "secret of all", 200, true},
		{"another secret", "{}", "{}", "secret of one", 403, false},
		{"another body", "{ }", "{}", "secret of all", 403, true},
	} {
		r, from := declared(test.body, test.says, test.secret)
		if w := f.do(r); w.Code != test.status || from.read != test.read {
			t.Errorf("%s: %d %s, the body was read: %v", test.name, w.Code, w.Body, from.read)
		}
	}
}

// pieces is a body that knows whether it was read.
type pieces struct {
	text string
	read bool
}

func (p *pieces) Read(b []byte) (int, error) {
	p.read = true
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b, p.text)
	p.text = p.text[n:]
	return n, nil
}

// signDeclared is sign for a request that says the hash of its body.
func signDeclared(r *http.Request, id, secret string, at time.Time, payload string) {
	day, names := at.UTC().Format("20060102"), "host;x-amz-content-sha256;x-amz-date"
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, "host:" + r.Host, "x-amz-content-sha256:" + payload,
		"x-amz-date:" + r.Header.Get("X-Amz-Date"), "", names, payload,
	}, "\n")
	scope := day + "/us-east-1/sagemaker/aws4_request"
	key := []byte("AWS4" + secret)
	for _, part := range []string{day, "us-east-1", "sagemaker", "aws4_request", "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hashed(canonical)} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", id, scope, names, key))
}

// MT-05: how much of a prompt is cached is told to a tenant of its own prompts, and to nobody of
// prompts that may be somebody else's.
func TestMT05HitsAreTold(t *testing.T) {
	f := start(t)
	chat := `{"model":"m-one","messages":[{"role":"user","content":"` + strings.Repeat("the quick brown fox ", 100) + `"}]}`
	for token, told := range map[string]bool{"token of one": false, "token of tenant": true} {
		r := post("/v1/chat/completions", chat)
		r.Header.Set("Authorization", "Bearer "+token)
		w := f.do(r)
		if w.Code != 200 || w.Header().Get("X-Warmroute-Decision-Id") == "" {
			t.Fatalf("%s: %d %s", token, w.Code, w.Body)
		}
		for _, name := range []string{"X-Warmroute-Reason", "X-Warmroute-Predicted-Cached-Tokens"} {
			if (w.Header().Get(name) != "") != told {
				t.Errorf("%s: %s is %q", token, name, w.Header().Get(name))
			}
		}
	}
}
