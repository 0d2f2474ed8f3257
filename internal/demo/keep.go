package demo

import (
	"context"
	"fmt"
	"io"
)

// stay tells how to try the fleet by hand and waits for Ctrl-C.
func stay(ctx context.Context, w io.Writer, f *fleet) error {
	_, err := fmt.Fprintf(w, `
The fleet is still running, with warm caches. The dashboard: %[2]s/
Its router goes by the clock, not by simulated time: before it advises, it wants requests of two minutes.
Try, and end it with Ctrl-C:

  curl -sN %[1]s/v1/chat/completions -i -H 'Content-Type: application/json' -d '{"model": "%[3]s", "stream": true, "max_tokens": 20, "messages": [{"role": "user", "content": "Say something."}]}'
  curl -s %[2]s/debug/state
  curl -s %[2]s/metrics | grep ^warmroute_

`, f.gateway.url, f.gateway.admin, model)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
