package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// Decision is where a request goes. It holds a slot on its backend until [Decision.Done],
// or until the router has not heard of it for as long as its lease.
type Decision struct {
	// ID names the decision in the router's records.
	ID string
	// Target is where to send the request, Alternatives who would be next.
	Target       Target
	Alternatives []Target
	// Pool is the pool of the model, Model what its engines call the model. RewriteModel
	// says that the body names it otherwise and must be changed.
	Pool, Model  string
	RewriteModel bool
	// AskForUsage says that the engine should be asked for usage on its stream, because the
	// body does not say.
	AskForUsage bool
	// Strategy and Reason say by which rule and why, Explanation the same in a sentence.
	Strategy, Reason, Explanation string
	// PromptTokens and PredictedCachedTokens are estimates, in tokens.
	PromptTokens, PredictedCachedTokens int

	client *Client
	made   time.Time

	mu   sync.Mutex
	ttft time.Duration // 0 before the first token
	done bool
}

// Ending is how a request ended.
type Ending = v1.Outcome

// The endings.
const (
	// Answered: the engine's answer came to its end, whatever its status.
	Answered = v1.Outcome_OUTCOME_ANSWERED
	// Canceled: the answer was not waited for.
	Canceled = v1.Outcome_OUTCOME_CANCELED
	// Unreachable: no connection, or it broke before an answer.
	Unreachable = v1.Outcome_OUTCOME_UNREACHABLE
	// TimedOut: no answer began in time.
	TimedOut = v1.Outcome_OUTCOME_TIMED_OUT
	// BrokenOff: the answer began and broke off.
	BrokenOff = v1.Outcome_OUTCOME_BROKEN_OFF
	// Incomplete: the answer ended in good order, but without its last event.
	Incomplete = v1.Outcome_OUTCOME_INCOMPLETE
	// EngineError: the engine answered with a status below 400 and an error object.
	EngineError = v1.Outcome_OUTCOME_ENGINE_ERROR
)

// Outcome is what came of a request.
type Outcome struct {
	// Ending is how it ended.
	Ending Ending
	// Status is the HTTP status, needed where an engine answered.
	Status int
	// RetryAfter is the pause that an overloaded engine asked for, 0 for none.
	RetryAfter time.Duration
	// Usage is what the engine reported.
	Usage feedback.Usage
	// ResponseID is the id of an answer of /v1/responses, which requests may name as
	// previous_response_id. Empty: there is none.
	ResponseID string
}

// ErrNotTaken says that a report came too late: the decision had ended before.
var ErrNotTaken = errors.New("the decision had ended before the report came")

// FirstToken notes that the first token of the answer came back now, for the reports that
// follow. Only the first call counts.
func (d *Decision) FirstToken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ttft == 0 {
		d.ttft = max(time.Since(d.made), 1)
	}
}

// Renew tells the router that the request is under way, and of its first token if that
// was noted.
func (d *Decision) Renew(ctx context.Context) error {
	return d.report(ctx, &v1.ReportRequest{Outcome: v1.Outcome_OUTCOME_IN_PROGRESS})
}

// Done tells the router what came of the request. Only the first call does anything.
func (d *Decision) Done(o Outcome) error {
	d.mu.Lock()
	before := d.done
	d.done = true
	d.mu.Unlock()
	if before {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	r := &v1.ReportRequest{Outcome: o.Ending, Status: uint32(max(o.Status, 0)), Usage: usageOf(o.Usage), ResponseId: reportable(o.ResponseID)} //nolint:gosec // a status is small
	if o.RetryAfter > 0 {
		r.RetryAfter = durationpb.New(o.RetryAfter)
	}
	return d.report(ctx, r)
}

func (d *Decision) report(ctx context.Context, r *v1.ReportRequest) error {
	r.DecisionId = d.ID
	d.mu.Lock()
	if d.ttft > 0 {
		r.Ttft = durationpb.New(d.ttft)
	}
	d.mu.Unlock()
	out, err := d.client.rpc.Report(ctx, r)
	if err == nil && !out.GetAccepted() {
		err = ErrNotTaken
	}
	return err
}

// reportable is an id, empty where it is none that can be reported.
func reportable(id string) string {
	if len(id) > 256 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// usageOf leaves out what was not reported, and what cannot be.
func usageOf(u feedback.Usage) *v1.Usage {
	if u.Nonsense {
		return nil
	}
	known := func(n int, has bool) *uint32 {
		if !has || n < 0 {
			return nil
		}
		return new(uint32(n)) //nolint:gosec // counts of tokens are small
	}
	return &v1.Usage{
		PromptTokens: known(u.Prompt, u.HasPrompt), CachedTokens: known(u.Cached, u.HasCached),
		OutputTokens: known(u.Completion, u.HasCompletion), LocalCachedTokens: known(u.Local, u.HasLocal),
		CachedTokensNull: u.CachedNull,
	}
}
