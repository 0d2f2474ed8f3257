package rpc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// maxRetryAfter is the longest pause that an engine can be reported to ask for.
const maxRetryAfter = 24 * time.Hour

// maxResponseID is the longest id of a stored answer, in characters.
const maxResponseID = 256

// Report implements the generated interface.
func (s *Service) Report(ctx context.Context, in *v1.ReportRequest) (*v1.ReportResponse, error) {
	r, err := readReport(in, longestLease(visitor(ctx)))
	if err != nil {
		return nil, failure(err)
	}
	if err := s.mayReport(visitor(ctx), in.GetDecisionId()); err != nil {
		return nil, failure(err)
	}
	if in.GetOutcome() == v1.Outcome_OUTCOME_IN_PROGRESS {
		length := func(d *decision) time.Duration { return orDefault(r.lease, d.lease) }
		d, deadline, ok := s.open.renew(in.GetDecisionId(), length)
		if !ok {
			return &v1.ReportResponse{}, nil
		}
		d.firstToken(r.ttft)
		d.stored(in.GetResponseId())
		return &v1.ReportResponse{Accepted: true, LeaseDeadline: timestamppb.New(deadline)}, nil
	}
	d, ok := s.open.take(in.GetDecisionId())
	if ok {
		d.firstToken(r.ttft)
		d.stored(in.GetResponseId())
		d.end(r.outcome, r.status, r.problem(d))
	}
	return &v1.ReportResponse{Accepted: ok}, nil
}

// mayReport says whether a decision, if there is one, is the caller's.
func (s *Service) mayReport(from *proxy.Visitor, id string) error {
	if d, _, open := s.open.get(id); open && d.from.Owner() != from.Owner() {
		return forbidden("decision_id: the decision was not made for the key %q", from.Key)
	}
	return nil
}

// report is a report whose every field makes sense.
type report struct {
	lease, ttft time.Duration // 0 for none
	status      int           // the HTTP status of the record
	outcome     feedback.Outcome
}

// readReport checks a report, which may ask for a lease as long as longest, and says what it
// means, as the proxy would have seen it.
func readReport(in *v1.ReportRequest, longest time.Duration) (r report, err error) {
	if !isDecisionID(in.GetDecisionId()) {
		return r, invalid("decision_id", "%q is not one: want 16 hexadecimal digits", printed(in.GetDecisionId()))
	}
	if in.GetLease() != nil {
		if r.lease, err = leaseOf(in.GetLease(), 0, longest); err != nil {
			return r, err
		}
	}
	if t := in.GetTtft(); t != nil {
		if r.ttft = t.AsDuration(); t.CheckValid() != nil || r.ttft <= 0 {
			return r, invalid("ttft", "%v is not above 0", r.ttft)
		}
	}
	if p := in.GetRetryAfter(); p != nil {
		if r.outcome.RetryAfter = p.AsDuration(); p.CheckValid() != nil || r.outcome.RetryAfter < 0 || r.outcome.RetryAfter > maxRetryAfter {
			return r, invalid("retry_after", "%v is not in 0..%v", r.outcome.RetryAfter, maxRetryAfter)
		}
	}
	if id := in.GetResponseId(); id != "" && !intake.Printable(id, maxResponseID) {
		return r, invalid("response_id", "must be 1 to %d printable ASCII characters, the first not a space", maxResponseID)
	}
	status := int(in.GetStatus())
	if status != 0 && (status < 100 || status > 599) {
		return r, invalid("status", "%d is not in 100..599", status)
	}
	if r.outcome.Usage, err = usageOf(in.GetUsage()); err != nil {
		return r, err
	}
	return r, r.judge(in.GetOutcome(), status)
}

func isDecisionID(s string) bool { return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == "" }

// usageOf checks what an engine reported.
func usageOf(in *v1.Usage) (u feedback.Usage, err error) {
	if in == nil {
		return u, nil
	}
	u = feedback.Usage{
		Prompt: int(in.GetPromptTokens()), HasPrompt: in.PromptTokens != nil,
		Cached: int(in.GetCachedTokens()), HasCached: in.CachedTokens != nil,
		Completion: int(in.GetOutputTokens()), HasCompletion: in.OutputTokens != nil,
		Local: int(in.GetLocalCachedTokens()), HasLocal: in.LocalCachedTokens != nil,
		CachedNull: in.GetCachedTokensNull(),
	}
	switch {
	case u.HasPrompt && u.Cached > u.Prompt:
		return u, invalid("usage.cached_tokens", "%d is more than the %d of usage.prompt_tokens", u.Cached, u.Prompt)
	case u.HasLocal && u.Local > u.Cached:
		return u, invalid("usage.local_cached_tokens", "%d is more than the %d of usage.cached_tokens", u.Local, u.Cached)
	case u.HasCached && u.CachedNull:
		return u, invalid("usage.cached_tokens_null", "is set beside usage.cached_tokens")
	}
	return u, nil
}

// judge fills in how the request ended. An answer that began is one of status 200 unless
// the report says otherwise.
func (r *report) judge(outcome v1.Outcome, status int) error {
	o := &r.outcome
	o.Status, r.status = status, status
	if status == 0 {
		r.status = http.StatusOK
	}
	began := r.ttft > 0 || r.status < http.StatusMultipleChoices
	switch outcome {
	case v1.Outcome_OUTCOME_IN_PROGRESS:
	case v1.Outcome_OUTCOME_ANSWERED:
		if status == 0 {
			return invalid("status", "is missing: what did the engine answer?")
		}
		o.Result, o.Blame = intake.Judge(status)
		o.FirstByte = began
	case v1.Outcome_OUTCOME_ENGINE_ERROR:
		if _, o.Blame = intake.Judge(r.status); o.Blame == feedback.Healthy {
			o.Blame = feedback.Neutral // of what status the error is, nobody says
		}
		o.Result, o.FirstByte = feedback.EngineError, began
	case v1.Outcome_OUTCOME_BROKEN_OFF:
		o.Result, o.Blame, o.FirstByte = feedback.UpstreamAborted, feedback.Strike, began
	case v1.Outcome_OUTCOME_INCOMPLETE:
		o.Result, o.Blame, o.FirstByte = feedback.UpstreamAborted, feedback.Neutral, began
	case v1.Outcome_OUTCOME_CANCELED:
		o.Result, o.Blame, o.FirstByte = feedback.ClientClosed, feedback.Neutral, r.ttft > 0
		r.status = intake.StatusClientClosed
	case v1.Outcome_OUTCOME_UNREACHABLE:
		o.Result, o.Blame = feedback.Unavailable, feedback.Strike
		r.status = http.StatusBadGateway
	case v1.Outcome_OUTCOME_TIMED_OUT:
		o.Result, o.Blame = feedback.Timeout, feedback.Strike
		r.status = http.StatusGatewayTimeout
	case v1.Outcome_OUTCOME_UNSPECIFIED:
		return invalid("outcome", "is missing: say how the request goes")
	default:
		return invalid("outcome", "%d is none", outcome)
	}
	return nil
}

// problem says what was wrong, for the record; empty when nothing was.
func (r *report) problem(d *decision) string {
	switch {
	case r.outcome.Result == feedback.Success:
		return ""
	case r.outcome.Result == feedback.ClientClosed:
		return "the caller did not wait for the answer's end"
	case r.outcome.Status >= http.StatusBadRequest:
		return fmt.Sprintf("backend %s answered %d", d.made.Backend.ID, r.outcome.Status)
	}
	return fmt.Sprintf("backend %s: %s, as its caller reports", d.made.Backend.ID, r.outcome.Result)
}

// firstToken takes in when the first token came back, that long after the request was
// sent; 0 means that it did not. It cannot have taken longer than since the decision.
func (d *decision) firstToken(after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if after == 0 || d.ended || d.record.TTFT > 0 {
		return
	}
	d.record.TTFT = min(after, max(time.Since(d.made.At), 1))
	d.s.options.Router.FirstToken(d.made, d.made.At.Add(d.record.TTFT))
}

// stored takes in the id of an answer that the engine stores, if it is one.
func (d *decision) stored(id string) {
	if id != "" && d.stores {
		d.pin(intake.ResponseKey(id, d.from.Owner(), d.s.options.KeySeed))
	}
}

// end completes a decision that has been taken from those that are open.
func (d *decision) end(o feedback.Outcome, status int, problem string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	o.Now = time.Now()
	o.FirstByte = o.FirstByte || d.record.TTFT > 0 // reported before
	d.s.options.Router.Complete(d.made, o)
	d.record.Result, d.record.Usage, d.record.Status, d.record.Err = o.Result, o.Usage, status, problem
	d.finish()
}

// expire ends a decision that nobody reported.
func (s *Service) expire(_ string, d *decision) {
	d.end(feedback.Outcome{Result: feedback.Expired}, intake.StatusClientClosed, fmt.Sprintf("not reported before its lease of %v ended", d.lease))
}
