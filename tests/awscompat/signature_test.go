package awscompat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/smithy-go"

	"github.com/warmroute/warmroute/internal/sigv4"
)

const keyed = `keys:
  - {name: app, access_key_id: ` + accessKeyID + `, secret: ` + secretKey + `}
  - {name: other, access_key_id: AKIDOTHER, secret: another, pools: [unused]}
`

// withKeys runs a router that only these keys open, with a second pool that is not used.
func withKeys(t *testing.T) *router {
	return start(t, []string{double(t), double(t)}, "", keyed, "  - {name: unused, models: [x], backends: [{url: \"http://127.0.0.1:1\"}]}\n")
}

// Clients that are not changed at all are let in with the right secret, and told apart
// without.
func TestSignedRequests(t *testing.T) {
	r := withKeys(t)
	with := func(id, secret, token string) *sagemakerruntime.Client {
		return r.client(func(o *sagemakerruntime.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(id, secret, token)
			o.RetryMaxAttempts = 1
		})
	}
	in := func() *sagemakerruntime.InvokeEndpointInput {
		return &sagemakerruntime.InvokeEndpointInput{
			EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"), Body: chat(prompt("signed"), 4, ""),
			CustomAttributes: aws.String("a  b"), PrefixAwareId: aws.String("tenant 1"),
		}
	}
	for _, token := range []string{"", "a session's token"} {
		if _, err := with(accessKeyID, secretKey, token).InvokeEndpoint(t.Context(), in()); err != nil {
			t.Errorf("the right secret: %v", err)
		}
	}
	if parts, _, err := read(t.Context(), with(accessKeyID, secretKey, ""), chat(prompt("signed"), 4, "")); err != nil || len(parts) == 0 {
		t.Errorf("a stream: %d parts, %v", len(parts), err)
	}
	for code, c := range map[string]*sagemakerruntime.Client{
		"InvalidSignatureException":   with(accessKeyID, secretKey+"x", ""),
		"UnrecognizedClientException": with("AKIDNOBODY", secretKey, ""),
		"AccessDeniedException":       with("AKIDOTHER", "another", ""),
		"MissingAuthenticationTokenException": r.client(func(o *sagemakerruntime.Options) {
			o.Credentials = aws.AnonymousCredentials{}
		}),
	} {
		_, err := c.InvokeEndpoint(t.Context(), in())
		if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != code {
			t.Errorf("want %s, got %v", code, err)
		}
		if _, _, err := read(t.Context(), c, chat("x", 1, "")); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("a stream: want %s, got %v", code, err)
		}
	}
}

// A body that is changed on its way is not what was signed.
func TestTamperedBody(t *testing.T) {
	r := withKeys(t)
	_, err := r.client(func(o *sagemakerruntime.Options) { o.HTTPClient, o.RetryMaxAttempts = tampering{}, 1 }).
		InvokeEndpoint(t.Context(), &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String(endpoint), Body: chat("x", 1, "")})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "InvalidSignatureException" {
		t.Errorf("got %v", err)
	}
}

// tampering is an HTTP client that changes bodies.
type tampering struct{}

func (tampering) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte("user"), []byte("evil"), 1)))
	return http.DefaultClient.Do(req)
}

// Whatever AWS's signer signs, the verifier recognises, and with another secret it does
// not.
func TestSigner(t *testing.T) {
	var verified error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			verified = err
			return
		}
		s, err := sigv4.Parse(r)
		if err != nil {
			verified = err
			return
		}
		verified = errors.Join(s.Fresh(time.Now()), s.Verify(secretKey, sha256.Sum256(body)))
		if s.Verify(secretKey+"x", sha256.Sum256(body)) == nil || s.AccessKeyID != accessKeyID {
			verified = errors.New("another secret will do")
		}
	}))
	defer server.Close()
	random := rand.New(rand.NewPCG(7, 7))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	text := func() string {
		var b strings.Builder
		for range random.IntN(8) {
			b.WriteString(pick("a", "B", "7", "-", "_", ".", "~", "%20", "%2F", "%C3%A9", "+", "=", "*", "'", "%25", "%3D"))
		}
		return b.String()
	}
	for range 400 {
		target := server.URL + "/endpoints/" + pick("ep", "a%20b", "x%2Fy", "%C3%A9", "a-b.c~d") + "/invocations"
		if random.IntN(2) == 0 {
			target += "?" + text() + "=" + text() + "&b&a=" + text() + "&a=1"
		}
		body := []byte(text())
		req, err := http.NewRequestWithContext(t.Context(), pick("POST", "PUT"), target, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", pick("application/json", "text/plain;   charset=utf-8", ""))
		req.Header["X-Amzn-Sagemaker-Custom-Attributes"] = []string{pick("a", " padded  inside ", "1"), pick("b", "c")}
		sum := sha256.Sum256(body)
		payload := hex.EncodeToString(sum[:])
		switch random.IntN(3) {
		case 0:
			req.Header.Set("X-Amz-Content-Sha256", payload)
		case 1:
			payload = "UNSIGNED-PAYLOAD"
			req.Header.Set("X-Amz-Content-Sha256", payload)
		}
		creds := aws.Credentials{AccessKeyID: accessKeyID, SecretAccessKey: secretKey, SessionToken: pick("", "token/+=")}
		if err := v4.NewSigner().SignHTTP(context.Background(), creds, req, payload, "sagemaker", pick("us-east-1", "eu-central-1"), time.Now()); err != nil {
			t.Fatal(err)
		}
		described := fmt.Sprintf("%s %s %q %v", req.Method, req.URL, body, req.Header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if verified != nil {
			t.Fatalf("%v: %s", verified, described)
		}
	}
}

// Signatures of another time are refused, by which the SDK learns of its clock.
func TestClocksThatDiffer(t *testing.T) {
	r := withKeys(t)
	for _, apart := range []time.Duration{-6 * time.Minute, 6 * time.Minute, -4 * time.Minute} {
		body := chat("x", 1, "")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/endpoints/"+endpoint+"/invocations", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		sum := sha256.Sum256(body)
		creds := aws.Credentials{AccessKeyID: accessKeyID, SecretAccessKey: secretKey}
		if err := v4.NewSigner().SignHTTP(t.Context(), creds, req, hex.EncodeToString(sum[:]), "sagemaker", "us-east-1", time.Now().Add(apart)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		want := http.StatusForbidden
		if apart.Abs() < 5*time.Minute {
			want = http.StatusOK
		}
		if resp.StatusCode != want {
			t.Errorf("%v apart: %d, want %d", apart, resp.StatusCode, want)
		}
	}
}
