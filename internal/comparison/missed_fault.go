package comparison

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
)

// late refuses a fault after the last request of a world, where that is known beforehand:
// nothing would come of it.
func (p *plan) late(w world, asked *workload.Workload) error {
	for _, fault := range w.scenario.faults {
		if asked.Ends == 0 || fault.At < asked.Ends {
			continue
		}
		with := ""
		if p.sweep.key != "" {
			with = fmt.Sprintf(" with %s=%s", p.sweep.key, w.value)
		}
		return fmt.Errorf("--fault %q: the requests%s end at %v: nothing comes of what happens later",
			faultText(fault), with, asked.Ends.Round(time.Millisecond))
	}
	return nil
}

// missedFault is which faults a run missed, and when it ended.
type missedFault struct {
	faults []replay.Fault
	ended  time.Duration
}

// missedFaults are those of all runs. They are known afterwards: how long sessions take
// depends on their answers.
type missedFaults []missedFault

// remarks say which faults were missed by some runs. One that all missed is an error: it
// was asked for, and nothing shows it.
func (m missedFaults) remarks(faults []replay.Fault) ([]string, error) {
	var lines []string
	for _, fault := range faults {
		missed, latest := 0, time.Duration(0)
		for _, run := range m {
			latest = max(latest, run.ended)
			if slices.Contains(run.faults, fault) {
				missed++
			}
		}
		switch missed {
		case 0:
		case len(m):
			return nil, fmt.Errorf("--fault %q: all requests had ended at %v: nothing comes of what happens later", faultText(fault), latest.Round(time.Millisecond))
		default:
			lines = append(lines, fmt.Sprintf("Nothing came of the fault %s in %d of %d runs: by then their requests had ended.", faultText(fault), missed, len(m)))
		}
	}
	return lines, nil
}
