package proxy_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// quantile sorts in place.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// BenchmarkHop measures what the router adds to a request that is not streamed, body
// by body of a chat prompt of that size: each iteration asks the engine directly and
// through the router, one after the other, on loopback.
//
//	go test -run '^$' -bench Hop -benchtime 3000x ./api/proxy
func BenchmarkHop(b *testing.B) {
	for _, size := range []int{2 << 10, 32 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			url := engine(b, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				writeWhole(w)
			})
			f := start(b, []string{url})
			body := chat(story("hop", size))
			ask := func(base string) time.Duration {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base+chatPath, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				begin := time.Now()
				resp, err := f.client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				return time.Since(begin)
			}
			for range 50 {
				ask(url)
				ask(f.url)
			}
			var direct, through []time.Duration
			for b.Loop() {
				direct = append(direct, ask(url))
				through = append(through, ask(f.url))
			}
			b.ReportMetric(micro(quantile(direct, 0.5)), "direct-p50-µs")
			b.ReportMetric(micro(quantile(through, 0.5)), "through-p50-µs")
			b.ReportMetric(micro(quantile(through, 0.5)-quantile(direct, 0.5)), "added-p50-µs")
			b.ReportMetric(micro(quantile(through, 0.99)-quantile(direct, 0.99)), "added-p99-µs")
			b.ReportMetric(allocs(100, func() { ask(f.url) })-allocs(100, func() { ask(url) }), "added-allocs")
		})
	}
}

// allocs is how many objects the whole process allocates for each call of f.
func allocs(n int, f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// BenchmarkChunk measures how long an event of a paced stream is on its way: every
// event says when it was sent. Each iteration is one event on each way.
//
//	go test -run '^$' -bench Chunk -benchtime 1000x ./api/proxy
func BenchmarkChunk(b *testing.B) {
	const pace = 2 * time.Millisecond
	origin := time.Now()
	paced := engine(b, func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		var at [8]byte
		for {
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			}
			binary.BigEndian.PutUint64(at[:], uint64(time.Since(origin)))
			events(w, `data: {"choices":[{"index":0,"delta":{"content":"`+hex.EncodeToString(at[:])+`"}}]}`+"\n\n")
		}
	})
	f := start(b, []string{paced})
	const mark = `"content":"`
	length := len(`data: {"choices":[{"index":0,"delta":{"content":"0123456789abcdef"}}]}`) + 2
	open := func(base string) io.ReadCloser {
		resp, err := f.client.Post(base+chatPath, "application/json", strings.NewReader(chat("hello", streaming)))
		if err != nil {
			b.Fatal(err)
		}
		return resp.Body
	}
	delay := func(from io.Reader) time.Duration {
		buf := make([]byte, length)
		if _, err := io.ReadFull(from, buf); err != nil {
			b.Fatal(err)
		}
		now := time.Since(origin)
		at := strings.Index(string(buf), mark) + len(mark)
		sent, err := hex.DecodeString(string(buf[at : at+16]))
		if err != nil {
			b.Fatal(err)
		}
		return now - time.Duration(binary.BigEndian.Uint64(sent))
	}
	measure := func(base string, n int) []time.Duration {
		stream := open(base)
		defer stream.Close()
		for range 20 {
			delay(stream)
		}
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = delay(stream)
		}
		return all
	}
	b.ResetTimer()
	direct := measure(paced, b.N)
	through := measure(f.url, b.N)
	b.StopTimer()
	b.ReportMetric(micro(quantile(direct, 0.5)), "direct-p50-µs")
	b.ReportMetric(micro(quantile(through, 0.5)), "through-p50-µs")
	b.ReportMetric(micro(quantile(through, 0.5)-quantile(direct, 0.5)), "added-p50-µs")
}

// BenchmarkThroughput sends requests of 32 KiB from several clients at once.
func BenchmarkThroughput(b *testing.B) {
	url := engine(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		writeWhole(w)
	})
	f := start(b, []string{url})
	f.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	body := chat(story("throughput", 32<<10))
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := f.client.Post(f.url+chatPath, "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

// discarding is an answer that goes nowhere.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarding) FlushError() error           { return nil }

// What a request allocates in the router and net/http's client, with the engine's side
// of it, stays within a budget: the engine's handler alone is measured beside it.
func TestAllocations(t *testing.T) {
	if raceEnabled() {
		t.Skip("the race detector allocates")
	}
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		writeWhole(w)
	})
	p := prepare(t, []string{url})
	body := chat(story("allocations", 32<<10))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	direct := func() {
		resp, err := client.Post(url+chatPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	through := func() {
		w := &discarding{header: make(http.Header)}
		r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
		p.handler.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			t.Fatalf("got %d", w.status)
		}
	}
	for range 100 {
		direct()
		through()
	}
	d, g := allocs(300, direct), allocs(300, through)
	t.Logf("%.0f allocations directly, %.0f in the router and behind it", d, g)
	if g-d > 90 {
		t.Errorf("the router adds %.0f allocations to a request, at most 90 are allowed", g-d)
	}
}
