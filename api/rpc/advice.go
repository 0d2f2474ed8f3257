package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/feedback/advice"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// maxAdviceWait is the longest that a caller may say it waits.
const maxAdviceWait = 10 * time.Minute

// GetAdvice implements the generated interface.
func (a *Admin) GetAdvice(ctx context.Context, in *v1.GetAdviceRequest) (*v1.GetAdviceResponse, error) {
	p, err := a.pool(in.GetPool())
	if err != nil {
		return nil, failure(err)
	}
	if in.GetWait() != nil {
		wait := in.GetWait().AsDuration()
		if in.GetWait().CheckValid() != nil || wait < 0 || wait > maxAdviceWait {
			return nil, failure(invalid("wait", "%v is not in 0s..%v", wait, maxAdviceWait))
		}
		limited, cancel := context.WithTimeoutCause(ctx, wait, errWaited)
		defer cancel()
		ctx = limited
	}
	out, err := a.advisor.get(ctx, p)
	if err != nil {
		return nil, failure(err)
	}
	return out, nil
}

// DescribeAdvice puts advice into a message.
func DescribeAdvice(given *advice.Advice, made time.Time) *v1.Advice {
	out := &v1.Advice{
		Pool: given.Pool, Made: timestamppb.New(made), Evidence: evidence(&given.Evidence), TooLittle: given.TooLittle,
		Present: routing(given.Present),
	}
	if given.TooLittle != "" {
		return out
	}
	out.Advised, out.Change = routing(given.Advised), adviceToSet(given.Present, given.Advised)
	out.Now, out.Then, out.Expected = measure(&given.Now), measure(&given.Then), expected(given.Change)
	for _, c := range given.Curves {
		curve := &v1.AdviceCurve{
			Setting: string(c.Knob), Present: c.Present.String(), Advised: c.Advised.String(),
			Verdict: string(c.Verdict), Reason: c.Reason, Change: expected(c.Change),
		}
		for _, point := range c.Points {
			curve.Points = append(curve.Points, &v1.AdvicePoint{
				Value: point.Value.String(), Measure: measure(&point.Measure), Change: expected(point.Change),
			})
		}
		out.Curves = append(out.Curves, curve)
	}
	out.Cautions = given.Cautions
	return out
}

// adviceToSet is what is to be set to get from one configuration to another that advice gives,
// nil where that is nothing.
func adviceToSet(present, advised router.Config) *v1.RoutingConfig {
	if advised == present {
		return nil
	}
	set := new(v1.RoutingConfig)
	if advised.PrefixLength != present.PrefixLength {
		set.PrefixLength = new(count(advised.PrefixLength))
	}
	if advised.ConcurrencyThreshold != present.ConcurrencyThreshold {
		set.ConcurrencyThreshold = new(count(advised.ConcurrencyThreshold))
	}
	return set
}

func evidence(e *advice.Evidence) *v1.AdviceEvidence {
	out := &v1.AdviceEvidence{
		Requests: count(e.Requests), Counted: count(e.Counted), Whole: e.Whole,
		Reported: e.Reported, Reckoned: e.Reckoned, LongestPrompt: count(e.LongestStream),
	}
	if e.Requests > 0 {
		out.From, out.To = timestamppb.New(e.From), timestamppb.New(e.To)
	}
	if e.Reported > 0 {
		out.HitRate = new(e.HitRate)
	}
	if e.P90 > 0 {
		out.TtftP90 = durationpb.New(e.P90)
	}
	return out
}

func measure(m *advice.Measure) *v1.AdviceMeasure {
	return &v1.AdviceMeasure{
		HitRate: m.HitRate, TtftP50: durationpb.New(m.P50), TtftP90: durationpb.New(m.P90), TtftMean: durationpb.New(m.Mean),
		OverflowShare: m.OverflowShare, Skew: m.Skew, Unserved: m.Unserved, DistinctPrefixes: count(m.DistinctPrefixes),
	}
}

func expected(c advice.Change) *v1.AdviceChange {
	interval := func(i advice.Interval) *v1.AdviceInterval {
		return &v1.AdviceInterval{Estimate: i.Estimate, Low: i.Low, High: i.High}
	}
	return &v1.AdviceChange{HitRate: interval(c.HitRate), TtftP90: interval(c.P90)}
}
