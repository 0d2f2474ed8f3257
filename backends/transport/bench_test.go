package transport

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
)

// BenchmarkRoundTrip measures one request of 32 KiB and its short answer over
// loopback, beside a bare http.Transport that does the same:
//
//	go test -run '^$' -bench RoundTrip -benchmem ./backends/transport
func BenchmarkRoundTrip(b *testing.B) {
	s := serve(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	})
	body := bytes.Repeat([]byte("x"), 32<<10)
	b.Run("transport", func(b *testing.B) {
		tr := open(b, Config{})
		to := backend(b, s.URL)
		r := Request{
			Method: http.MethodPost, Path: "/v1/completions", Body: body,
			Header: http.Header{"Content-Type": {"application/json"}},
		}
		b.ReportAllocs()
		for b.Loop() {
			resp, f := tr.Do(context.Background(), to, r)
			if f != nil {
				b.Fatal(f)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.Run("net/http", func(b *testing.B) {
		tr := &http.Transport{DisableCompression: true}
		b.Cleanup(tr.CloseIdleConnections)
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL+"/v1/completions", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := tr.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
