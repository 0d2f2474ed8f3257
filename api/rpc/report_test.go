package rpc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

func answered(id string) *v1.ReportRequest {
	return &v1.ReportRequest{
		DecisionId: id, Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200, Ttft: durationpb.New(300 * time.Millisecond),
		Usage: &v1.Usage{PromptTokens: new(uint32(3000)), CachedTokens: new(uint32(0)), OutputTokens: new(uint32(12))},
	}
}

// A reported answer leaves its prompt behind: the next one goes there too.
func TestRouteAndReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.route(ask(chat("m", "a")))
		if w.inFlight() != 1 || first.GetReason() != "no_match" || len(first.GetAlternatives()) != 2 {
			t.Errorf("%d in flight, decided %v", w.inFlight(), first)
		}
		time.Sleep(time.Second)
		if got := w.report(answered(first.GetDecisionId())); !got.GetAccepted() || got.GetLeaseDeadline() != nil {
			t.Errorf("report: %v", got)
		}
		if w.inFlight() != 0 {
			t.Errorf("%d in flight after the report", w.inFlight())
		}
		second := w.route(ask(chat("m", "a")))
		if second.GetTarget().GetBackend() != first.GetTarget().GetBackend() || second.GetReason() != "longest_match" || second.GetMatchedTokens() == 0 {
			t.Errorf("after %v came %v", first, second)
		}
		other := w.route(ask(chat("lora", "a")))
		if other.GetMatchedTokens() != 0 {
			t.Errorf("an adapter shares %d tokens with its base", other.GetMatchedTokens())
		}
		r := w.recorded()
		if len(r) != 1 || r[0].Result != feedback.Success || r[0].Status != 200 || r[0].Usage.Prompt != 3000 || r[0].TTFT != 300*time.Millisecond ||
			r[0].Duration != time.Second || len(r[0].Keys) < 40 || r[0].BlockBytes != 256 || r[0].StreamBytes == 0 || r[0].DecisionID != first.GetDecisionId() {
			t.Errorf("records: %+v", r)
		}
	})
}

// Double, late and unknown reports do nothing.
func TestReportsThatComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.route(ask(chat("m", "a"))).GetDecisionId()
		w.report(answered(id))
		blocks := w.blocks()
		failed := &v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_UNREACHABLE}
		for _, again := range []*v1.ReportRequest{
			answered(id), failed,
			{DecisionId: id, Outcome: v1.Outcome_OUTCOME_IN_PROGRESS},
			answered("0123456789abcdef"),
		} {
			if got := w.report(again); got.GetAccepted() || got.GetLeaseDeadline() != nil {
				t.Errorf("%v is taken in: %v", again, got)
			}
		}
		late := w.route(ask(chat("m", "b"))).GetDecisionId()
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if w.report(answered(late)).GetAccepted() {
			t.Error("a report after the lease is taken in")
		}
		if w.inFlight() != 0 || w.blocks() != blocks || len(w.recorded()) != 2 {
			t.Errorf("%d in flight, %d blocks of %d, %d records", w.inFlight(), w.blocks(), blocks, len(w.recorded()))
		}
	})
}

// A decision that is not reported ends with its lease, and what it added is taken back,
// unless its first token was seen.
func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.route(&v1.RouteRequest{Prompt: chat("m", "a"), Lease: durationpb.New(10 * time.Second)})
		if w.blocks() == 0 {
			t.Error("nothing is predicted")
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if w.inFlight() != 1 {
			t.Error("ended before its lease")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.inFlight() != 0 || w.blocks() != 0 {
			t.Errorf("%d in flight, %d blocks after the lease", w.inFlight(), w.blocks())
		}

		id := w.route(ask(chat("m", "b"))).GetDecisionId()
		time.Sleep(100 * time.Second)
		seen := w.report(&v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_IN_PROGRESS, Ttft: durationpb.New(time.Second)})
		if left := time.Until(seen.GetLeaseDeadline().AsTime()); !seen.GetAccepted() || left != 120*time.Second {
			t.Errorf("renewed for %v", left)
		}
		time.Sleep(100 * time.Second)
		if !w.report(&v1.ReportRequest{DecisionId: id, Outcome: v1.Outcome_OUTCOME_IN_PROGRESS, Lease: durationpb.New(time.Hour)}).GetAccepted() {
			t.Error("a renewed lease ended")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.inFlight() != 0 || w.blocks() == 0 {
			t.Errorf("%d in flight, %d blocks of a prompt that was prefilled", w.inFlight(), w.blocks())
		}
		for _, r := range w.recorded() {
			if r.Result != feedback.Expired || r.Err == "" || r.Status != 499 {
				t.Errorf("record: %+v", r)
			}
		}
	})
}

// What a report says about the backend and the prompt is what the proxy would have seen.
func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		report *v1.ReportRequest
		result feedback.Result
		status int
		keeps  bool // the prompt is thought to be cached
		state  string
	}{
		{"answered", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 200}, feedback.Success, 200, true, "up"},
		{"refused", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 400}, feedback.Rejected, 400, false, "up"},
		{"not found", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 404}, feedback.NotFound, 404, false, "up"},
		{"overloaded", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 503, RetryAfter: durationpb.New(time.Minute)}, feedback.Saturated, 503, false, "cooling"},
		{"failed", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ANSWERED, Status: 500}, feedback.EngineError, 500, false, "up"},
		{"an error in it", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_ENGINE_ERROR}, feedback.EngineError, 200, false, "up"},
		{"canceled early", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_CANCELED}, feedback.ClientClosed, 499, false, "up"},
		{"canceled late", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_CANCELED, Ttft: durationpb.New(time.Second)}, feedback.ClientClosed, 499, true, "up"},
		{"unreachable", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_UNREACHABLE}, feedback.Unavailable, 502, false, "up"},
		{"timed out", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_TIMED_OUT}, feedback.Timeout, 504, false, "up"},
		{"broken off", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_BROKEN_OFF}, feedback.UpstreamAborted, 200, true, "up"},
		{"incomplete", &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_INCOMPLETE}, feedback.UpstreamAborted, 200, true, "up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := w.route(ask(chat("m", "a")))
				time.Sleep(2 * time.Second)
				tc.report.DecisionId = d.GetDecisionId()
				w.report(tc.report)
				r := w.recorded()
				if len(r) != 1 || r[0].Result != tc.result || r[0].Status != tc.status || (r[0].Err == "") != (tc.result == feedback.Success) {
					t.Errorf("records: %+v", r)
				}
				if kept := w.blocks() > 0; kept != tc.keeps {
					t.Errorf("%d blocks are thought to be cached", w.blocks())
				}
				for _, s := range w.pool.Status(time.Now()) {
					if s.Backend.ID == d.GetTarget().GetBackend() && s.State.String() != tc.state {
						t.Errorf("the backend is %s", s.State)
					}
				}
			})
		})
	}
}

// Three reported failures in a row take a backend out, as three of the proxy's do.
func TestReportedFailuresEject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		victim := ""
		for range 10 {
			d := w.route(ask(chat("m", "a")))
			if victim == "" {
				victim = d.GetTarget().GetBackend()
			}
			if d.GetTarget().GetBackend() != victim {
				return // it is out
			}
			w.report(&v1.ReportRequest{DecisionId: d.GetDecisionId(), Outcome: v1.Outcome_OUTCOME_UNREACHABLE})
		}
		t.Errorf("%s gets requests after ten failures", victim)
	})
}

// Nonsense is refused with the name of the field, and the decision stays open.
func TestNonsensicalReports(t *testing.T) {
	w := newWorld(t)
	id := w.route(ask(chat("m", "a"))).GetDecisionId()
	valid := func(change func(*v1.ReportRequest)) *v1.ReportRequest {
		r := answered(id)
		change(r)
		return r
	}
	for field, in := range map[string]*v1.ReportRequest{
		"decision_id:":               valid(func(r *v1.ReportRequest) { r.DecisionId = "nonsense" }),
		"outcome: is missing":        valid(func(r *v1.ReportRequest) { r.Outcome = 0 }),
		"outcome: 77":                valid(func(r *v1.ReportRequest) { r.Outcome = 77 }),
		"status: 99":                 valid(func(r *v1.ReportRequest) { r.Status = 99 }),
		"status: is missing":         valid(func(r *v1.ReportRequest) { r.Status = 0 }),
		"ttft:":                      valid(func(r *v1.ReportRequest) { r.Ttft = durationpb.New(-time.Second) }),
		"ttft: ":                     valid(func(r *v1.ReportRequest) { r.Ttft = &durationpb.Duration{Nanos: 2e9} }),
		"lease: 2h0m0s":              valid(func(r *v1.ReportRequest) { r.Lease = durationpb.New(2 * time.Hour) }),
		"retry_after:":               valid(func(r *v1.ReportRequest) { r.RetryAfter = durationpb.New(48 * time.Hour) }),
		"usage.cached_tokens:":       valid(func(r *v1.ReportRequest) { r.Usage.CachedTokens = new(uint32(3001)) }),
		"usage.local_cached_tokens:": valid(func(r *v1.ReportRequest) { r.Usage.LocalCachedTokens = new(uint32(1)) }),
		"usage.cached_tokens_null:":  valid(func(r *v1.ReportRequest) { r.Usage.CachedTokensNull = true }),
	} {
		_, err := w.service.Report(t.Context(), in)
		if codeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if w.inFlight() != 1 || !w.report(answered(id)).GetAccepted() {
		t.Error("a report that was refused ended the decision")
	}
}
