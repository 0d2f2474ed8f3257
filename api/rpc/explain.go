package rpc

import (
	"context"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// Explain implements the generated interface.
func (s *Service) Explain(ctx context.Context, in *v1.ExplainRequest) (*v1.ExplainResponse, error) {
	from := visitor(ctx)
	if !from.MayKnow() {
		return nil, failure(forbidden("explanations tell what others asked: the key %q gets none without a tenant of its own (keys[].tenant)", from.Key))
	}
	q := s.newQuestion(from, "")
	defer q.release()
	if err := q.prepare(in); err != nil {
		return nil, failure(err)
	}
	e := s.options.Router.Explain(&q.ask)
	out := &v1.ExplainResponse{
		Pool: q.target.Pool.Name(), Model: q.target.Model, Strategy: e.Strategy,
		PromptTokens: count(e.PromptTokens), PromptBlocks: count(len(q.ask.Blocks)),
	}
	if e.Err != nil {
		out.Explanation = e.Err.Error()
	} else {
		out.Backend, out.Reason, out.Explanation = e.Backend.ID, e.Reason.String(), e.Why
	}
	for i := range e.Candidates {
		out.Candidates = append(out.Candidates, candidate(&e.Candidates[i]))
	}
	return out, nil
}

func candidate(c *router.CandidateReport) *v1.Candidate {
	out := &v1.Candidate{
		Target: address(new(v1.Target), c.Backend), State: c.State.String(), Excluded: c.Excluded, Place: count(c.Place),
		MatchedBlocks: count(c.MatchedBlocks), MatchedTokens: count(c.MatchedTokens), PredictedCachedTokens: count(c.PredictedCached),
		QueuedTokens: count(c.Queued), InFlight: count(c.InFlight), Limit: count(c.Limit), Full: c.Full, Cost: c.Cost,
	}
	if c.Place > 0 {
		out.Reason = c.Reason.String()
	}
	return out
}
