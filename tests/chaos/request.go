package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/client"
)

// ending is how a request ended, as its client sees it.
type ending string

// The endings.
const (
	complete ending = "complete"
	left     ending = "left"    // the client did not wait for the end
	broken   ending = "broken"  // visibly: an error event, an exception, a reset
	silent   ending = "silent"  // it looks whole, and is not
	refused  ending = "refused" // another status than 200
	unheard  ending = "unheard" // no answer: the connection to the router failed
	stuck    ending = "stuck"   // neither answer nor failure within clientPatience
)

// clientPatience bounds a whole request. Nothing takes nearly as long: engines that are
// frozen are given up after idle.
const clientPatience = 60 * time.Second

// lease is how long a replica keeps a decision that nobody reports, as when its caller leaves just
// as it comes: longer than a request takes. No other lease is longer.
const lease = 25 * time.Second

// plan is what a client does.
type plan struct {
	id      string
	d       *dialect
	prompt  string
	tokens  int
	http2   bool
	leaves  time.Duration // after which it leaves; 0: it stays
	slow    time.Duration // pause after each read; 0: none
	silent  bool          // an RPC caller that never reports
	replica int           // which it would ask first
}

// result is what came of it.
type result struct {
	*plan

	began, ended time.Time
	replica      string // that was asked last
	ending       ending
	status       int
	text         string   // what a failure said
	engines      []string // those that had a part, the last one last
	attempts     int
	elsewhere    bool // the first replica could not be reached
	refusals     int  // calls of Route that failed
	unreported   int  // calls of Report that failed
	kept         bool // the connection had been kept after another request
}

// doors are the ways into the replicas.
type doors struct {
	fleet   *fleet
	carrier [2]*http.Client  // HTTP/1.1, HTTP/2
	direct  *http.Client     // to engines, for RPC callers
	routing []*client.Client // by replica; reports are made
	silent  []*client.Client // by replica; with short leases, for callers that never report
}

func newDoors(f *fleet) *doors {
	d := &doors{fleet: f}
	for i := range d.carrier {
		t := &http.Transport{
			MaxIdleConnsPerHost: 512, IdleConnTimeout: 20 * time.Second, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		}
		if i == 1 {
			t.Protocols = new(http.Protocols)
			t.Protocols.SetUnencryptedHTTP2(true)
		}
		d.carrier[i] = &http.Client{Transport: t}
	}
	d.direct = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 3 * time.Second, ResponseHeaderTimeout: firstByte,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
	}}
	for _, r := range f.replicas {
		d.routing = append(d.routing, client.New(r.url, client.WithHTTPClient(d.carrier[0]), client.WithLease(lease)))
		d.silent = append(d.silent, client.New(r.url, client.WithHTTPClient(d.carrier[0]), client.WithLease(2*time.Second)))
	}
	return d
}

// close closes the connections that nothing uses.
func (d *doors) close() {
	d.direct.CloseIdleConnections()
	for _, c := range d.carrier {
		c.CloseIdleConnections()
	}
}

// order is in which order replicas are asked: those that are ready first, as behind a load
// balancer.
func (d *doors) order(first int) []int {
	n := len(d.fleet.replicas)
	var ready, others []int
	for i := range n {
		j := (first + i) % n
		if d.fleet.replicas[j].ready.Load() {
			ready = append(ready, j)
		} else {
			others = append(others, j)
		}
	}
	return append(ready, others...)
}

// errDial is a replica that could not be reached: another may be asked.
var errDial = errors.New("no connection")

// do carries out a plan.
func (d *doors) do(p *plan) *result {
	r := &result{plan: p, began: time.Now(), ending: unheard}
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	gone := make(chan struct{})
	if p.leaves > 0 {
		timer := time.AfterFunc(p.leaves, func() { close(gone); cancel() })
		defer timer.Stop()
	}
	for i, at := range d.order(p.replica) {
		r.replica, r.elsewhere = d.fleet.replicas[at].name, i > 0
		var err error
		if p.d.rpc {
			err = d.routed(ctx, r, at)
		} else {
			err = d.proxied(ctx, r, at)
		}
		if !errors.Is(err, errDial) {
			break
		}
	}
	r.ended = time.Now()
	select {
	case <-gone:
		if r.ending != complete && r.ending != silent {
			r.ending = left
		}
	default:
		if ctx.Err() != nil && r.ending != complete {
			r.ending = stuck
		}
	}
	return r
}

// proxied sends a request through a replica.
func (d *doors) proxied(ctx context.Context, r *result, at int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.fleet.replicas[at].url+r.d.path, bytes.NewReader(r.d.body(r.prompt, r.tokens)))
	if err != nil {
		return err
	}
	req.Header.Set("X-Request-Id", r.id)
	via := d.carrier[0]
	if r.http2 {
		via = d.carrier[1]
	}
	return d.send(via, req, r)
}

// send sends a request and reads its answer.
func (d *doors) send(via *http.Client, req *http.Request, r *result) error {
	req.Header.Set("Content-Type", "application/json")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { r.kept = info.Reused },
	}))
	resp, err := via.Do(req)
	if err != nil {
		r.ending, r.text = unheard, err.Error()
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && req.Context().Err() == nil {
			return errDial
		}
		return err
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	if id := resp.Header.Get("X-Warmroute-Backend"); id != "" {
		r.engines = append(r.engines, id)
	}
	if n, err := strconv.Atoi(resp.Header.Get("X-Warmroute-Attempts")); err == nil {
		r.attempts = n
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		r.ending, r.text = refused, cut(text)
		return nil
	}
	in := &reader{d: r.d}
	buf := make([]byte, 8<<10)
	if r.slow > 0 {
		buf = buf[:512]
	}
	for {
		n, err := resp.Body.Read(buf)
		in.take(buf[:n])
		if err != nil {
			r.ending, r.text = in.end(err)
			return nil
		}
		if r.slow > 0 {
			pause(req.Context(), r.slow)
		}
	}
}

// routed asks a replica where to send a request, sends it there, and reports, as
// docs/guides/rpc.md tells callers to.
func (d *doors) routed(ctx context.Context, r *result, at int) error {
	routing := d.routing[at]
	if r.silent {
		routing = d.silent[at]
	}
	body := r.d.body(r.prompt, r.tokens)
	var tried []string
	for range 3 {
		decision, err := routing.Route(ctx, client.Request{Path: r.d.path, Body: body, ID: r.id, Tried: tried})
		if err != nil {
			r.ending, r.text = unheard, err.Error()
			if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && ctx.Err() == nil {
				return errDial
			}
			if ctx.Err() == nil {
				r.refusals++
			}
			return err
		}
		r.attempts++
		r.engines = append(r.engines, decision.Target.Backend)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, decision.Target.URL+r.d.path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		for name, value := range decision.Target.Headers {
			req.Header.Set(name, value)
		}
		outcome, again := judgeRouted(ctx, r, d.send(d.direct, req, r))
		if r.silent {
			// Nobody hears of it.
		} else if err := decision.Done(outcome); err != nil && ctx.Err() == nil {
			r.unreported++
			r.text = fmt.Sprintf("report: %v (%s)", err, r.text)
		}
		if !again {
			return nil
		}
		tried = append(tried, decision.Target.Backend)
	}
	return nil
}

// judgeRouted is what a caller reports, and whether it may ask for another backend.
func judgeRouted(ctx context.Context, r *result, err error) (o client.Outcome, again bool) {
	switch {
	case ctx.Err() != nil:
		return client.Outcome{Ending: client.Canceled, Status: r.status}, false
	case errors.Is(err, errDial):
		return client.Outcome{Ending: client.Unreachable}, true
	case err != nil:
		if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
			return client.Outcome{Ending: client.TimedOut}, false
		}
		return client.Outcome{Ending: client.Unreachable}, r.kept // engines close connections that idle
	case r.ending == broken:
		return client.Outcome{Ending: client.BrokenOff, Status: r.status}, false
	case r.ending == silent:
		return client.Outcome{Ending: client.Incomplete, Status: r.status}, false
	}
	return client.Outcome{Ending: client.Answered, Status: r.status}, r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
}

var words = []string{
	"pump", "valve", "pressure", "hall", "noon", "seven", "report", "engine", "second", "before", "nobody", "checked",
	"every", "stops", "when", "turbine", "under", "load", "cold", "start",
}

// prose is text of about so many bytes.
func prose(rng *rand.Rand, size int) string {
	var text bytes.Buffer
	for text.Len() < size {
		text.WriteString(words[rng.IntN(len(words))])
		text.WriteByte(' ')
	}
	return text.String()
}
