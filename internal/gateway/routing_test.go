package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rpc calls a method with JSON and returns status and answer.
func (s *stack) rpc(addr, method, body string) (int, map[string]any) {
	s.t.Helper()
	status, _, text := s.request(http.MethodPost, "http://"+addr+"/warmroute.v1."+method, body, "Content-Type", "application/json")
	answer := make(map[string]any)
	if status == http.StatusOK || strings.HasPrefix(text, `{"code"`) {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			s.t.Errorf("%s: %s: %v", method, text, err)
		}
	}
	return status, answer
}

// The routing service knows what the proxy has sent, on its port; what operators do is on
// the other one only.
func TestRPCBesideTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}, "b2:8000": &engine{}})
		synctest.Wait()
		_, header, _ := s.chat(longPrompt("a"), "")
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, longPrompt("a"))
		question := fmt.Sprintf(`{"prompt":{"original":{"path":"/v1/chat/completions","body":%q}}}`, base64.StdEncoding.EncodeToString([]byte(body)))
		status, explained := s.rpc(dataAddr, "RoutingService/Explain", question)
		if status != http.StatusOK || explained["backend"] != header.Get("X-Warmroute-Backend") || explained["reason"] != "longest_match" {
			t.Errorf("%d %v, the proxy sent it to %s", status, explained, header.Get("X-Warmroute-Backend"))
		}
		status, decided := s.rpc(dataAddr, "RoutingService/Route", question)
		if status != http.StatusOK || decided["reason"] != "longest_match" {
			t.Fatalf("%d %v", status, decided)
		}
		time.Sleep(time.Second)
		report := fmt.Sprintf(`{"decisionId":%q,"outcome":"OUTCOME_ANSWERED","status":200,"usage":{"promptTokens":100,"cachedTokens":64}}`, decided["decisionId"])
		if status, answer := s.rpc(dataAddr, "RoutingService/Report", report); status != http.StatusOK || answer["accepted"] != true {
			t.Errorf("%d %v", status, answer)
		}
		if status, _ := s.rpc(dataAddr, "AdminService/ListBackends", "{}"); status != http.StatusNotFound {
			t.Errorf("the data port lists backends: %d", status)
		}
		if status, _ := s.rpc(adminAddr, "RoutingService/Explain", "{}"); status != http.StatusNotFound {
			t.Errorf("the admin port routes: %d", status)
		}
		_, hits := s.rpc(adminAddr, "AdminService/GetHitReport", "{}")
		if text := fmt.Sprint(hits); !strings.Contains(text, "deliveredTokens:128") || !strings.Contains(text, "reportedPromptTokens:200") {
			t.Errorf("hits of both: %s", text)
		}
		_, list := s.rpc(adminAddr, "AdminService/ListDecisions", "{}")
		if text := fmt.Sprint(list); !strings.Contains(text, "dialect:openai") || !strings.Contains(text, "dialect:rpc") {
			t.Errorf("decisions of both: %s", text)
		}
		if status, metrics := s.admin("/metrics"); status != http.StatusOK || !strings.Contains(metrics, `dialect="rpc",pool="default",result="success"} 1`) {
			t.Errorf("metrics: %d, without the request", status)
		}
	})
}

// Decisions that are open when the process stops are recorded.
func TestOpenDecisionsEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil, map[string]http.Handler{"b1:8000": &engine{}})
		synctest.Wait()
		if status, answer := s.rpc(dataAddr, "RoutingService/Route", `{"prompt":{"text":"hello","model":"m"},"lease":"3600s"}`); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
		s.stop()
		if r := s.records(); len(r) != 1 || r[0]["result"] != "lease_expired" {
			t.Errorf("records: %v", r)
		}
	})
}
