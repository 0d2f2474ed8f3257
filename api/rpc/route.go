package rpc

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// How many alternatives are named: as many as the proxy would try.
const (
	defaultAlternatives = 2
	maxAlternatives     = 8
)

// decision is a decision that is not reported yet.
type decision struct {
	*question

	made  *router.Decision
	lease time.Duration // how long a report renews it for, unless that says

	charged bool // the caller's tokens, of which taken is what was thought
	taken   int
	holds   int // slots, as its owner's; 0: nothing

	mu    sync.Mutex // orders first token and end
	ended bool
}

// Route implements the generated interface.
func (s *Service) Route(ctx context.Context, in *v1.RouteRequest) (*v1.RouteResponse, error) {
	d := &decision{question: s.newQuestion(visitor(ctx), in.GetRequestId())}
	out, err := d.route(ctx, in)
	if err != nil {
		d.refuse(err)
		return nil, failure(err)
	}
	return out, nil
}

func (s *Service) newQuestion(from *proxy.Visitor, requestID string) *question {
	q := &question{s: s, from: from, record: &feedback.Record{Start: time.Now(), Method: http.MethodPost, Dialect: Dialect}}
	q.share.Open(s.options.Bodies)
	if q.record.RequestID = requestID; !intake.Printable(requestID, intake.MaxRequestID) {
		q.record.RequestID = s.newRequestID()
	}
	return q
}

// newRequestID names a request that its caller did not name.
func (s *Service) newRequestID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], s.options.Random())
	binary.BigEndian.PutUint64(id[8:], s.options.Random())
	return hex.EncodeToString(id[:])
}

// route makes the decision and keeps it until it is reported or its lease ends.
func (d *decision) route(ctx context.Context, in *v1.RouteRequest) (*v1.RouteResponse, error) {
	var err error
	if d.lease, err = leaseOf(in.GetLease(), DefaultLease, longestLease(d.from)); err != nil {
		return nil, err
	}
	alternatives := uint32(defaultAlternatives)
	if in.Alternatives != nil {
		alternatives = in.GetAlternatives()
	}
	if alternatives > maxAlternatives {
		return nil, invalid("alternatives", "%d is not in 0..%d", alternatives, maxAlternatives)
	}
	if err := d.prepare(in); err != nil {
		return nil, err
	}
	d.ask.Alternatives = int(alternatives)
	if err := d.hold(); err != nil {
		return nil, err
	}
	if err := d.charge(); err != nil {
		return nil, err
	}
	if d.made, err = d.decide(ctx); err != nil {
		return nil, err
	}
	d.pin(d.previous) // it is in use
	kept := false
	defer func() { // a slot must not outlive a call that fails
		if !kept {
			d.record.DecisionID = "" // nobody knows of it
			d.s.options.Router.Complete(d.made, feedback.Outcome{Now: time.Now(), Result: feedback.RouterError})
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err // nobody would report it
	}
	d.made.Record(d.record)
	d.record.Attempts = 1
	out := d.describe()
	deadline := time.Now().Add(d.lease)
	out.LeaseDeadline = timestamppb.New(deadline)
	kept = d.s.open.put(out.GetDecisionId(), d, deadline)
	if !kept {
		return nil, &limitError{fmt.Sprintf("%d decisions are open already: report what became of them", d.s.options.MaxLeases), time.Second}
	}
	if d.s.closed.Load() { // the service closes and has not seen it
		d.s.open.close()
	}
	return out, nil
}

// describe is the decision as its caller sees it.
func (d *decision) describe() *v1.RouteResponse {
	made := d.made
	all := make([]v1.Target, 1+len(made.Alternatives)) // one allocation for the chosen and all others
	next := make([]*v1.Target, len(made.Alternatives))
	for i, b := range made.Alternatives {
		next[i] = address(&all[1+i], b)
	}
	out := &v1.RouteResponse{
		DecisionId:   d.record.DecisionID,
		Target:       address(&all[0], made.Backend),
		Alternatives: next,
		Pool:         d.record.Pool,
		Model:        d.target.Model,
		RewriteModel: d.target.Alias,
		Strategy:     d.record.Strategy,
		PromptTokens: count(made.PromptTokens),
		AskForUsage:  d.askUsage,
	}
	if d.from.MayKnow() {
		out.Reason, out.Explanation = d.record.Reason, d.record.Why
		out.MatchedTokens, out.PredictedCachedTokens = count(made.CapturedCached), count(made.PredictedCached)
	}
	return out
}

// hold notes what the decision will hold as its owner's, from before it waits for a slot.
func (d *decision) hold() error {
	n := max(d.ask.N, 1)
	if err := d.s.held.take(d.from.Owner(), d.ask.Pool, n); err != nil {
		return err
	}
	d.holds = n
	return nil
}

// charge takes what the prompt is thought to have out of what the caller may use.
func (d *decision) charge() error {
	if d.from.Tokens == nil {
		return nil
	}
	tokens := intake.PromptTokens(&d.ask)
	if err := d.from.Tokens.Take(tokens); err != nil {
		return &accessError{err}
	}
	d.charged, d.taken = true, tokens
	return nil
}

// pin remembers that the decision's backend stores an answer.
func (d *decision) pin(key router.PinKey) {
	d.s.options.Router.Pin(d.made.Pool, key, d.made.Backend.ID, time.Now())
}

// refuse records a request that got no decision.
func (d *decision) refuse(err error) {
	f := diagnose(err)
	d.record.Err, d.record.Result, d.record.Status = f.message, f.result, f.status
	d.finish()
}

// finish completes the record and gives up everything.
func (d *decision) finish() {
	d.record.Duration = time.Since(d.record.Start)
	if d.holds > 0 {
		d.s.held.give(d.from.Owner(), d.ask.Pool, d.holds)
	}
	if d.charged {
		used := intake.UsedTokens(d.record, d.taken)
		if d.record.TTFT > 0 || d.record.Result == feedback.Success {
			used = max(used, d.taken) // what is reported here is the word of whom it bounds
		}
		d.from.Tokens.Settle(d.taken, used)
	}
	d.s.options.Observe(d.record)
	d.release()
}

// longestLease is how long a lease somebody may ask for.
func longestLease(from *proxy.Visitor) time.Duration {
	if from.Owner() != "" {
		return MaxKeyedLease
	}
	return MaxLease
}

// leaseOf checks a lease that was asked for, which may be as long as most.
func leaseOf(asked *durationpb.Duration, fallback, most time.Duration) (time.Duration, error) {
	if asked == nil {
		return fallback, nil
	}
	if err := asked.CheckValid(); err != nil {
		return 0, invalid("lease", "is not a duration")
	}
	lease := asked.AsDuration()
	if lease < MinLease || lease > most {
		return 0, invalid("lease", "%v is not in %v..%v", lease, MinLease, most)
	}
	return lease, nil
}
