package rpc

import (
	"context"

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
	for {
		select {
		case <-ctx.Done():
			return failure(ctx.Err())
		case r := <-records:
			if !concerns(&r, in.GetPool()) {
				continue
			}
			if err := out.Send(&v1.WatchDecisionsResponse{Decision: record(&r), Missed: missed()}); err != nil {
				return err
			}
		}
	}
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
		Usage: reported(r.Usage),
	}
	if r.TTFT > 0 {
		out.Ttft = durationpb.New(r.TTFT)
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
