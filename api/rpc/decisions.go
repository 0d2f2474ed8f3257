package rpc

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

// How many decisions are listed.
const (
	defaultDecisions = 50
	maxDecisions     = 10_000
)

// ListDecisions implements the generated interface.
func (a *Admin) ListDecisions(_ context.Context, in *v1.ListDecisionsRequest) (*v1.ListDecisionsResponse, error) {
	limit := int(in.GetLimit())
	if limit > maxDecisions {
		return nil, failure(invalid("limit", "%d is not in 0..%d", limit, maxDecisions))
	}
	if limit == 0 {
		limit = defaultDecisions
	}
	if _, err := a.pools(in.GetPool()); err != nil {
		return nil, failure(err)
	}
	out := new(v1.ListDecisionsResponse)
	for _, r := range a.options.Recent(maxDecisions) {
		if len(out.GetDecisions()) == limit {
			break
		}
		if concerns(&r, in.GetPool()) {
			out.Decisions = append(out.Decisions, record(&r))
		}
	}
	return out, nil
}

// WatchDecisions implements the generated interface.
func (a *Admin) WatchDecisions(ctx context.Context, in *v1.WatchDecisionsRequest, out *connect.ServerStream[v1.WatchDecisionsResponse]) error {
	if _, err := a.pools(in.GetPool()); err != nil {
		return failure(err)
	}
	records, missed, stop := a.options.Follow()
	defer stop()
	defer a.options.Router.Watch()()
	if err := out.Send(nil); err != nil { // the headers, so that the reader knows that it is heard
		return err
	}
	bound := pace{perSecond: int(in.GetPerSecond())}
	for {
		select {
		case <-ctx.Done():
			return failure(ctx.Err())
		case r := <-records:
			if !concerns(&r, in.GetPool()) || !bound.allows(time.Now()) {
				continue
			}
			if err := out.Send(&v1.WatchDecisionsResponse{Decision: record(&r), Missed: missed() + bound.left}); err != nil {
				return err
			}
			bound.left = 0
		}
	}
}

// pace bounds how many of something there are in a second.
type pace struct {
	perSecond int // 0: any number
	since     time.Time
	used      int
	left      uint64 // left out since the last one that was allowed
}

// allows reports whether one more may come now, and counts it, or what is left out.
func (p *pace) allows(now time.Time) bool {
	if now.Sub(p.since) >= time.Second {
		p.since, p.used = now, 0
	}
	if p.perSecond > 0 && p.used >= p.perSecond {
		p.left++
		return false
	}
	p.used++
	return true
}

// concerns reports whether a record is of a decision in a pool, or in any.
func concerns(r *feedback.Record, pool string) bool {
	return r.DecisionID != "" && (pool == "" || r.Pool == pool)
}

// record describes a decision and what came of it.
func record(r *feedback.Record) *v1.DecisionRecord {
	out := &v1.DecisionRecord{
		DecisionId: r.DecisionID, RequestId: r.RequestID, Start: timestamppb.New(r.Start), Duration: durationpb.New(r.Duration),
		Route: r.Route, Dialect: r.Dialect, Status: count(r.Status), Result: r.Result.String(),
		Pool: r.Pool, Model: r.Model, Backend: r.Backend, Strategy: r.Strategy, Reason: r.Reason, Explanation: r.Why,
		Attempts: count(r.Attempts), EstimatedPromptTokens: count(r.PromptTokens), PredictedCachedTokens: count(r.PredictedCached),
		Usage: reported(r.Usage), AvailableCachedTokens: count(r.AvailableCached), Overflow: r.Overflow, Eligible: count(r.Eligible),
	}
	for i := range r.Considered {
		out.Candidates = append(out.Candidates, considered(&r.Considered[i]))
	}
	if r.TTFT > 0 {
		out.Ttft = durationpb.New(r.TTFT)
	}
	return out
}

// considered describes a backend that took part in a decision.
func considered(c *feedback.Considered) *v1.Candidate {
	out := &v1.Candidate{
		Target:        &v1.Target{Backend: c.Backend},
		MatchedBlocks: count(c.MatchedBlocks), MatchedTokens: count(c.MatchedTokens), PredictedCachedTokens: count(c.PredictedCached),
		QueuedTokens: count(c.Queued), InFlight: count(c.InFlight), Limit: count(c.Limit), Full: c.Full, Cost: c.Cost,
	}
	if c.Chosen {
		out.Place = 1
	}
	return out
}

// reported is what an engine reported.
func reported(u feedback.Usage) *v1.Usage {
	known := func(n int, has bool) *uint32 {
		if !has {
			return nil
		}
		return new(count(n))
	}
	return &v1.Usage{
		PromptTokens: known(u.Prompt, u.HasPrompt), CachedTokens: known(u.Cached, u.HasCached),
		OutputTokens: known(u.Completion, u.HasCompletion), LocalCachedTokens: known(u.Local, u.HasLocal),
		CachedTokensNull: u.CachedNull,
	}
}
