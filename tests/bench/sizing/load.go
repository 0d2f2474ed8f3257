package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// engines is how many there are.
const engines = 4

// fleet is engines that answer at once, and hold streams while they are told to.
type fleet struct {
	servers []*httptest.Server
	hold    chan struct{} // closed: nothing is held
}

func newFleet() *fleet {
	f := &fleet{hold: make(chan struct{})}
	for range engines {
		f.servers = append(f.servers, httptest.NewServer(f))
	}
	return f
}

func (f *fleet) close() {
	for _, s := range f.servers {
		s.CloseClientConnections()
		s.Close()
	}
}

const (
	event = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n"
	usage = `"usage":{"prompt_tokens":%d,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":0}}`
)

// ServeHTTP implements [http.Handler].
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	tokens := fmt.Sprintf(usage, n/4)
	var chunks int
	if _, err := fmt.Sscan(r.Header.Get("X-Chunks"), &chunks); err != nil || chunks == 0 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q}}],%s}`, strings.Repeat(" token", 200), tokens)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for range chunks {
		io.WriteString(w, event)
		flush.Flush()
	}
	if r.Header.Get("X-Hold") != "" {
		select {
		case <-f.hold:
		case <-r.Context().Done():
		}
	}
	fmt.Fprintf(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],%s}\n\ndata: [DONE]\n\n", tokens)
}

// client sends requests.
type client struct {
	http *http.Client
	url  string
	sent atomic.Int64
}

func newClient(url string, width int) *client {
	return &client{url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width}}}
}

// prompt is so many bytes of text, the same for the same number.
func prompt(seed uint64, size int) string {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // repeatable on purpose
	var text strings.Builder
	for text.Len() < size {
		fmt.Fprintf(&text, "%x ", random.Uint32())
	}
	return text.String()[:size]
}

// send sends one request and reads its answer to the end, or until held.
func (c *client) send(ctx context.Context, s shape, text string, held func()) error {
	body, err := json.Marshal(map[string]any{
		"model": "m", "stream": s.chunks > 0, "messages": []map[string]string{{"role": "user", "content": text}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Chunks", fmt.Sprint(s.chunks))
	if held != nil {
		req.Header.Set("X-Hold", "1")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if held != nil {
		held()
	}
	text2, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", resp.Status, text2)
	}
	c.sent.Add(1)
	return err
}

// play sends n requests, width at a time. Every second prompt was sent before.
func (c *client) play(ctx context.Context, s shape, from, n, width int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(width)
	for i := range n {
		group.Go(func() error { return c.send(ctx, s, prompt(uint64(from+i/2), s.bytes), nil) })
		if ctx.Err() != nil {
			break
		}
	}
	return group.Wait()
}

// processorTime is what the router computes for one request.
func processorTime(ctx context.Context, program string, s shape, requests, width int) (time.Duration, error) {
	f := newFleet()
	defer f.close()
	r, err := launch(ctx, program, f, "")
	if err != nil {
		return 0, err
	}
	defer r.stop()
	c := newClient(r.data, width)
	if err := c.play(ctx, s, 0, requests/10, width); err != nil { // connections, pools of buffers
		return 0, err
	}
	before, err := r.processorTime()
	if err != nil {
		return 0, err
	}
	if err := c.play(ctx, s, requests, requests, width); err != nil {
		return 0, err
	}
	after, err := r.processorTime()
	return (after - before) / time.Duration(requests), err
}

// footprint is what of memory a router needs, in bytes.
type footprint struct {
	idle      int64
	entries   int
	indexHeap int64
	flying    int64
}

func memory(ctx context.Context, program string, entries, held int) (m footprint, err error) {
	f := newFleet()
	defer f.close()
	// The memory of recent requests has its own bound, and would be counted.
	r, err := launch(ctx, program, f, "limits: {recent_requests_bytes: 0}\n")
	if err != nil {
		return m, err
	}
	defer r.stop()
	const each = 128 << 10
	long := shape{bytes: each}
	c := newClient(r.data, 8)
	if err := c.play(ctx, long, 0, 32, 8); err != nil {
		return m, err
	}
	if m.idle, err = r.resident(); err != nil {
		return m, err
	}
	heap0, blocks0, err := r.heap(ctx)
	if err != nil {
		return m, err
	}
	// Twice each, as play does: the second adds nothing.
	if err := c.play(ctx, long, 1000, 2*entries/(each/256), 8); err != nil {
		return m, err
	}
	heap1, blocks1, err := r.heap(ctx)
	if err != nil {
		return m, err
	}
	m.entries, m.indexHeap = blocks1-blocks0, heap1-heap0
	if m.entries < entries/2 {
		return m, fmt.Errorf("the index has %d entries, want about %d", m.entries, entries)
	}
	m.flying, err = r.holding(ctx, f, held)
	return m, err
}

// holding is what some streams in flight need.
func (r *router) holding(ctx context.Context, f *fleet, n int) (int64, error) {
	before, err := r.resident()
	if err != nil {
		return 0, err
	}
	c := newClient(r.data, n)
	group, ctx := errgroup.WithContext(ctx)
	begun := make(chan struct{}, n)
	for i := range n {
		group.Go(func() error {
			return c.send(ctx, shape{bytes: 32 << 10, chunks: 5}, prompt(uint64(1_000_000+i), 32<<10), func() { begun <- struct{}{} })
		})
	}
	for range n {
		select {
		case <-begun:
		case <-ctx.Done():
			return 0, errors.Join(ctx.Err(), group.Wait())
		}
	}
	after, err := r.resident()
	close(f.hold)
	return after - before, errors.Join(err, group.Wait())
}
