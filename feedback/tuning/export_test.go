package tuning

import "github.com/warmroute/warmroute/feedback"

// What tests from outside hold figures against.
const (
	Parts      = parts
	FallOfHits = fallOfHits
	StepFactor = stepFactor
)

// Sum is what was delivered.
type Sum struct{ part }

func (s *Sum) Add(r *feedback.Record) { s.add(r) }

func (s *Sum) Delivered() Delivered { return s.delivered() }
