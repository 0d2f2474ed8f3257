package advice

import (
	"time"

	"github.com/warmroute/warmroute/feedback/tuning"
)

// Proposals are the settings to change, for [tuning.Tuner]; none where there is nothing to set.
func (a *Advice) Proposals() []tuning.Proposal {
	var all []tuning.Proposal
	for _, c := range a.Curves {
		if c.Verdict != Set {
			continue
		}
		faster := -c.Change.P90.Estimate
		all = append(all, tuning.Proposal{
			Setting: tuning.Setting(c.Knob), To: int(c.Advised.Number), HitRate: c.Change.HitRate.Estimate, Faster: faster,
			Less: time.Duration(faster * float64(a.Now.P90)), Why: c.Reason,
		})
	}
	return all
}
