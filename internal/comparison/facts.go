package comparison

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/replay/report"
)

// facts say under which conditions runs took place, in the order of importance. They leave
// out what a sweep varies. The fleets are those of all jobs, the first of which stands for all
// where nothing is swept.
func (s *scenario) facts(jobs []Job, runs []report.Run, swept string) []string {
	fleet := jobs[0].Fleet
	several := func(j Job) bool { return j.Fleet.Routers > 1 }
	swept = strings.ReplaceAll(swept, "-", "_")
	var facts []string
	add := func(key, text string) {
		if text != "" && (key == "" || key != swept) {
			facts = append(facts, text)
		}
	}
	add("", requests(runs))
	add("load", fmt.Sprintf("load × %v", s.asked.load))
	add("backends", count(fleet.Backends, "backend"))
	if slices.ContainsFunc(jobs, several) {
		add("routers", count(fleet.Routers, "router"))
		add("share_delay", sharing(fleet.ShareDelay))
	}
	add("profile", "profile "+s.engine.profile)
	add("kv_tokens", fmt.Sprintf("%d tokens of KV each", fleet.Engine.KVTokens))
	add("block_size", fmt.Sprintf("blocks of %d", fleet.Engine.BlockSize))
	if s.engine.prefillRate > 0 {
		add("prefill_rate", fmt.Sprintf("%v prefill tokens/s", s.engine.prefillRate))
	}
	if s.engine.overhead != 0 {
		add("request_overhead", fmt.Sprintf("%v overhead a request", s.engine.overhead))
	}
	add("state_capacity", statement(fleet.StatedCapacity))
	for _, setting := range s.settings {
		key, _, _ := strings.Cut(setting, "=")
		add(key, setting)
	}
	if text := noiseText(fleet.Noise); text != "" {
		add("noise", "noise "+text)
	}
	for _, fault := range s.faults {
		add("", "fault "+faultText(fault))
	}
	add("seed", fmt.Sprintf("seed %d", s.seed))
	return facts
}

// requests says how many there were. In a closed loop they differ between runs.
func requests(runs []report.Run) string {
	least, most := runs[0].Row.Requests, runs[0].Row.Requests
	for _, run := range runs {
		least, most = min(least, run.Row.Requests), max(most, run.Row.Requests)
	}
	if least == most {
		return count(least, "request") + " a run"
	}
	return fmt.Sprintf("%d–%d requests a run", least, most)
}

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sharing says what several routers know of each other.
func sharing(delay time.Duration) string {
	if delay == 0 {
		return "they share nothing"
	}
	return fmt.Sprintf("they share within %v", delay)
}

// statement says what engines tell of their capacity.
func statement(stated float64) string {
	switch stated {
	case 0:
		return "engines do not state their capacity"
	case 1:
		return "engines state their capacity"
	}
	return fmt.Sprintf("engines state %v × their capacity", stated)
}
