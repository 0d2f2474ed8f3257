package e2e

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/internal/config"
)

// record returns the access record of a request.
func (w *watched) record(id string) map[string]any {
	w.t.Helper()
	var found map[string]any
	w.await("the access record of "+id+" is written", func() bool {
		for _, r := range w.log.lines(w.t, "request") {
			if r["request_id"] == id {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// OB-04: afterwards the access records say why a hit, an overflow and a failover went
// where they did.
func TestOB04RecordsSayWhy(t *testing.T) {
	w := watch(t, setup{engines: 2, configure: func(c *config.Config) { c.Pools[0].Routing.ConcurrencyThreshold = 1 }})
	doc := prose(1, 6000)
	w.teach([]string{doc}, w.ids[0])
	expect := func(what string, got map[string]any, want map[string]any) {
		t.Helper()
		for key, value := range want {
			if fmt.Sprint(got[key]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v\n%v", what, key, got[key], value, got)
			}
		}
		for _, key := range []string{"decision_id", "strategy", "model", "pool", "predicted_cached_tokens", "available_cached_tokens", "prompt_tokens", "cached_tokens", "ttft", "duration"} {
			if _, there := got[key]; !there {
				t.Errorf("%s: the record has no %s", what, key)
			}
		}
	}

	hit := w.mustChat(ask{messages: []message{user(doc)}})
	record := w.record(hit.id)
	blocks := record["prompt_blocks"]
	expect("hit", record, map[string]any{
		"backend": w.ids[0], "reason": "longest_match", "matched_blocks": blocks, "in_flight": 0, "attempts": 1, "overflow": false,
		"result": "success", "status": 200, "cached_tokens": hit.cached,
	})

	// The holder is at its threshold.
	w.fault(0, hangHeaders)
	held := w.hold(1, w.ids[0], prose(2, 3000))
	overflow := w.mustChat(ask{messages: []message{user(doc)}})
	w.fault(0, `{"clear":true}`)
	<-held
	expect("overflow", w.record(overflow.id), map[string]any{
		"backend": w.ids[1], "overflow": true, "matched_blocks": 0, "in_flight": 0, "attempts": 1, "result": "success", "cached_tokens": 0,
	})

	// The chosen one refuses.
	other := prose(3, 6000)
	w.teach([]string{other}, w.ids[0])
	w.fault(0, `{"status":503}`)
	failover := w.mustChat(ask{messages: []message{user(other)}})
	expect("failover", w.record(failover.id), map[string]any{
		"backend": w.ids[1], "attempts": 2, "matched_blocks": 0, "in_flight": 0, "result": "success", "status": 200,
	})
	w.await("1 retry is counted", func() bool { return w.metric("warmroute_retries_total") == 1 })
}
