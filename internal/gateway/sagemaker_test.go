package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/warmroute/warmroute/internal/config"
)

// endpoint makes the only pool the only variant of an endpoint.
func endpoint(c *config.Config) { c.Pools[0].SageMakerEndpoints = []string{"my-endpoint"} }

func TestSageMakerEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, endpoint, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		status, header, body := s.request(http.MethodPost, "http://"+dataAddr+"/endpoints/my-endpoint/invocations", `{"messages":[]}`, "Content-Type", "application/json")
		if status != http.StatusOK || header.Get("X-Amzn-Invoked-Production-Variant") != "default" || !strings.Contains(body, "chat.completion") {
			t.Errorf("%d %v %s", status, header, body)
		}
		status, header, body = s.request(http.MethodPost, "http://"+dataAddr+"/endpoints/my-endpoint/invocations-response-stream", `{"messages":[],"max_tokens":3}`, "Content-Type", "application/json")
		if status != http.StatusOK || header.Get("Content-Type") != "application/vnd.amazon.eventstream" || strings.Count(body, "PayloadPart") != 4 {
			t.Errorf("%d %v %q", status, header, body)
		}
		for _, r := range s.records() {
			if r["dialect"] != "sagemaker" || r["result"] != "success" {
				t.Errorf("recorded as %v", r)
			}
		}
		_, metrics := s.admin("/metrics")
		if !strings.Contains(metrics, `warmroute_requests_total{dialect="sagemaker",pool="default",result="success"} 2`) {
			t.Error("the metrics do not know the dialect")
		}
	})
}

// Paths that are not written the shortest way are errors in AWS's shape below /endpoints.
func TestSageMakerPathsThatAreNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, endpoint, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		for _, path := range []string{"/endpoints//invocations", "/endpoints/my-endpoint//invocations", "/endpoints/./my-endpoint/invocations", "/endpoints/x"} {
			status, header, body := s.request(http.MethodPost, "http://"+dataAddr+path, "{}")
			var e struct {
				Type string `json:"__type"`
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || status != http.StatusNotFound || header.Get("X-Amzn-ErrorType") != "UnknownOperationException" || e.Type != "UnknownOperationException" {
				t.Errorf("%s: %d %v %s", path, status, header, body)
			}
		}
	})
}

// With keys the data plane is closed, the routing service too, and no part of a key or a
// signature is shown anywhere: AU-05.
func TestKeysCloseTheDataPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret, signature = "hunter2hunter2", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		s := start(t, func(c *config.Config) {
			endpoint(c)
			c.Keys = []config.Key{{Name: "app", AccessKeyID: "AKIDAPP", Secret: secret}}
		}, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		var shown strings.Builder
		for path, want := range map[string]int{
			"/endpoints/my-endpoint/invocations": http.StatusForbidden, "/invocations": http.StatusForbidden, "/endpoints//x": http.StatusForbidden,
			"/v1/chat/completions": http.StatusUnauthorized, "/v1/messages": http.StatusUnauthorized, "/nothing": http.StatusUnauthorized,
			"/warmroute.v1.RoutingService/Route": http.StatusUnauthorized, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": http.StatusUnauthorized,
		} {
			for _, authorization := range []string{
				"", "Bearer " + secret,
				"AWS4-HMAC-SHA256 Credential=AKIDAPP/20000101/r/sagemaker/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + signature,
			} {
				status, header, body := s.request(http.MethodPost, "http://"+dataAddr+path, `{"model":"m","messages":[]}`,
					"Content-Type", "application/json", "Authorization", authorization, "X-Amz-Date", "20000101T000000Z", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
				if fmt.Fprintln(&shown, header, body); status != want || !json.Valid([]byte(body)) {
					t.Errorf("%s with %q: %d %s", path, authorization, status, body)
				}
			}
		}
		if status, _, _ := s.request(http.MethodGet, "http://"+dataAddr+"/ping", ""); status != http.StatusOK {
			t.Errorf("/ping: %d", status)
		}
		for _, path := range []string{"/", "/metrics", "/readyz", "/debug/state", "/debug/decisions"} {
			_, body := s.admin(path)
			shown.WriteString(body)
		}
		s.stop()
		shown.WriteString(s.log.String())
		shown.WriteString(s.config.String())
		for _, word := range []string{secret, signature} {
			if strings.Contains(shown.String(), word) {
				t.Errorf("%s is shown", word)
			}
		}
	})
}
