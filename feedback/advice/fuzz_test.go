package advice

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/feedback/recent"
)

// FuzzReadLog reads logs of any kind, and plays what it could read.
func FuzzReadLog(f *testing.F) {
	const line = `{"arrived":"2026-11-29T12:00:00Z","pool":"p","result":"success","status":200,"ttft_seconds":0.1,"duration_seconds":2,` +
		`"prompt_tokens":150,"cached_tokens":0,"output_tokens":100,"stream_bytes":600,"block_bytes":256,"keys":"AQAAAAAAAAACAAAAAAAAAA=="}` + "\n"
	f.Add(line)
	f.Add(line + strings.NewReplacer("12:00:00", "12:00:09", "150", "400", "600", "1600", "AgAAAAAAAAA=", "AgAAAAAAAAADAAAAAAAAAA==").Replace(line))
	f.Add(line + strings.Replace(line, "AQAAAAAAAAACAAAAAAAAAA==", "AgAAAAAAAAACAAAAAAAAAA==", 1) + strings.Replace(line, "success", "saturated", 1))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := readLog(strings.NewReader(text), recent.New(recent.MinBytes), "", 0)
		if err != nil {
			return
		}
		p := Pool{}
		engine := p.engine(w, p.step(w))
		if err := engine.Validate(); err != nil {
			t.Fatal(err)
		}
		w.evidence()
		w.distinct(1024)
		if len(w.requests.Requests) == 0 {
			return
		}
		source, n := w.asked(p.bytesPerToken(w)).Play(1), 0
		for _, ok := source.Next(); ok; _, ok = source.Next() {
			n++
		}
		if n != len(w.requests.Requests) {
			t.Fatalf("%d of %d requests are played", n, len(w.requests.Requests))
		}
	})
}
