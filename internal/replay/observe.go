package replay

import (
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// observe tells what came of a request, as the proxy tells telemetry, if anybody wants to know.
// The record's keys are those of the whole prompt, whatever PrefixLength cuts off.
func (fl *flight) observe(o feedback.Outcome) {
	f := fl.fleet
	if f.config.Observe == nil {
		return
	}
	r := &f.record
	*r = feedback.Record{
		Start: clock(fl.at), Duration: o.Now.Sub(clock(fl.at)), Status: o.Status, Result: o.Result, Streamed: true,
		Pool: poolName, Usage: o.Usage,
		PromptBlocks: len(fl.keys), HasPrefix: len(fl.keys) >= minPrefixBlocks,
		Keys: fl.wholeKeys(r.Keys[:0]), BlockBytes: f.config.Router.BlockBytes, StreamBytes: fl.stream,
	}
	if fl.first {
		r.TTFT = f.result.Samples[fl.sample].TTFT
	}
	if fl.decision != nil {
		r.Attempts = 1
		fl.decision.Record(r)
	}
	f.config.Observe(r)
}

// minPrefixBlocks is the fewest blocks that make a prefix.
const minPrefixBlocks = 2

// wholeKeys appends the keys of all blocks of the prompt.
func (fl *flight) wholeKeys(dst []kvindex.Key) []kvindex.Key {
	f := fl.fleet
	f.bytes = f.bytes[:0]
	for _, s := range fl.ask.Prompt {
		f.bytes = append(f.bytes, run{s.ID, f.units.bytes(s)})
	}
	return appendChain(dst, f.seed(fl.ask.Tenant), f.bytes, f.config.Router.BlockBytes)
}
