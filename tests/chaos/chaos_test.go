package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A short run of everything, on every machine; make chaos and make soak are the long ones.
// RB-16: after faults of all kinds, normal requests are answered as before.
func TestRB16ShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the programs for some 15 seconds")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("redis-server is missing; on Debian: apt-get install redis-server")
	}
	o := chaos()
	o.seed, o.lasts, o.calm, o.rate, o.engines, o.gap, o.conversations = 5, 5*time.Second, time.Second, 20, 4, 600*time.Millisecond, 3
	o.dir = t.TempDir()
	// What takes longer than the run, or only shows in longer ones, is left out.
	o.engineFaults = []string{engineKilled, engineHangs, engineCut, engineForgets, engineErrs, engineBusy, engineStreams, engineFails}
	o.redisFaults = []string{redisCut, redisFlushed, redisKilled}
	o.routerFaults = []string{replicaReload, replicaBad}
	var out, progress bytes.Buffer
	o.progress = &progress
	if err := run(t.Context(), o, "table", &out); err != nil {
		t.Errorf("%v\n%s\n%s", err, &progress, &out)
	}
	for _, want := range []string{"chaos, seed 5", "invocations-response-stream", "engine: ", "all is as it must be"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*options){
		"-t: must be above 0 and at most 10m0s, is 11m0s": func(o *options) { o.lasts = 11 * time.Minute },
		"-rate: must be 1 to 1000, is 0":                  func(o *options) { o.rate = 0 },
	} {
		o := chaos()
		change(o)
		if err := run(t.Context(), o, "table", io.Discard); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := run(t.Context(), chaos(), "xml", io.Discard); err == nil || !strings.Contains(err.Error(), "-o: must be table or json") {
		t.Errorf("got %v", err)
	}
}

// moment is so many milliseconds after an arbitrary one.
func moment(ms int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(ms) * time.Millisecond)
}

// What a request may fail with, and what it may not.
func TestVerdicts(t *testing.T) {
	const e1, e2, e3 = "127.0.0.1:12001", "127.0.0.1:12002", "127.0.0.1:12003"
	const none = "no backend gave an answer: "
	killed := &fault{Kind: engineKilled, Target: e1, From: moment(10_000), To: moment(13_000)}
	frozen := &fault{Kind: engineFreezes, Target: e2, From: moment(20_000), To: moment(60_000)}
	errs := &fault{Kind: engineErrs, Target: e1, From: moment(70_000), To: moment(75_000)}
	crash := &fault{Kind: replicaKilled, Target: "replica-1", From: moment(90_000), To: moment(92_000)}
	restart := &fault{Kind: replicaRestarts, Target: "replica-0", From: moment(80_000), To: moment(85_000)}
	late := &fault{Kind: engineFreezes, Target: e3, From: moment(78_500), To: moment(98_000)}
	j := &judge{
		faults: []*fault{killed, frozen, errs, restart, late, crash},
		logged: map[string]string{"stale": "backend " + e1 + ": the kept connection was closed: EOF"},
	}
	stream, call := dialects[0], dialects[len(dialects)-1]
	for _, test := range []struct {
		name        string
		d           *dialect
		began, took int // milliseconds
		r           result
		with        *fault
	}{
		{"a stream of an engine that dies", stream, 9000, 1200, result{ending: broken, engines: []string{e1}}, killed},
		{"of another engine", stream, 9000, 1200, result{ending: broken, engines: []string{e2}}, nil},
		{"long before", stream, 4000, 1000, result{ending: broken, engines: []string{e1}}, nil},
		{"sent when it was long dead", stream, 12_000, 500, result{ending: broken, engines: []string{e1}}, nil},
		{"it looks whole", stream, 9000, 1200, result{ending: silent, engines: []string{e1}}, nil},
		{"neither answer nor failure", stream, 9000, 60_000, result{ending: stuck, engines: []string{e1}}, nil},
		{"it had the request", stream, 9900, 200, result{ending: refused, status: 502, text: none + e1 + ": the connection broke before the answer"}, killed},
		{"nobody had it", stream, 11_000, 200, result{ending: refused, status: 502, text: none + e1 + ": no connection"}, nil},
		{"a kept connection", stream, 9900, 200, result{plan: &plan{id: "stale"}, ending: refused, status: 502, text: none + e1 + ": the connection broke before the answer"}, nil},
		{"overloaded", stream, 9900, 200, result{ending: refused, status: 429, text: "fault injected by /sim/fault"}, nil},
		{"no backend", stream, 9900, 200, result{ending: refused, status: 503, text: "no backend"}, nil},
		{"no answer in time", stream, 21_000, 8000, result{ending: refused, status: 504, text: none + e2 + ": no answer in time (timeouts.first_byte)"}, frozen},
		{"it should have been known", stream, 45_000, 8000, result{ending: refused, status: 504, text: none + e2 + ": no answer in time (timeouts.first_byte)"}, nil},
		{"told to answer 500", stream, 71_000, 10, result{ending: refused, status: 500, engines: []string{e1}, text: "fault injected by /sim/fault"}, errs},
		{"500 of its own", stream, 71_000, 10, result{ending: refused, status: 500, engines: []string{e1}, text: "no"}, nil},
		{"no answer of the router", stream, 9900, 200, result{ending: unheard, text: "EOF"}, nil},
		{"its router crashes", stream, 89_500, 600, result{ending: unheard, replica: "replica-1", text: "EOF"}, crash},
		{"another router crashes", stream, 89_500, 600, result{ending: unheard, replica: "replica-0", text: "EOF"}, nil},
		{"it crashed long ago", stream, 91_500, 600, result{ending: unheard, replica: "replica-1", text: "EOF"}, nil},
		{"it crashed long ago, and its connection was kept", stream, 95_500, 60, result{ending: unheard, kept: true, replica: "replica-1", text: "EOF"}, crash},
		{"a router that ends in good order", stream, 80_500, 600, result{ending: unheard, replica: "replica-0", text: "EOF"}, nil},
		{"a new one refuses", stream, 88_500, 600, result{ending: unheard, replica: "replica-0", text: "EOF"}, nil},
		{"a caller whose engine dies", call, 9900, 200, result{ending: unheard, engines: []string{e1}, text: "EOF"}, killed},
		{"a caller that is refused", call, 9900, 200, result{ending: unheard, refusals: 1, engines: []string{e1}}, nil},
		{"a caller whose report is refused", call, 9900, 200, result{ending: unheard, unreported: 1, engines: []string{e1}, text: "EOF"}, nil},
		{"a caller whose engine freezes and whose replica is replaced", call, 79_000, 8000, result{ending: unheard, unreported: 1, replica: "replica-0", engines: []string{e3}, text: "timeout"}, late},
	} {
		r := test.r
		if r.plan == nil {
			r.plan = &plan{id: "x"}
		}
		r.d, r.began, r.ended = test.d, moment(test.began), moment(test.began+test.took)
		with, lost := j.verdict(&r)
		if with != test.with || (lost == "") != (test.with != nil) {
			t.Errorf("%s: with %+v, lost %q", test.name, with, lost)
		}
	}
	reports := &result{plan: &plan{d: call}, ending: complete, unreported: 1, replica: "replica-0", began: moment(79_000), ended: moment(81_000)}
	if _, lost := j.verdict(reports); lost != "" {
		t.Errorf("a report to a replica that was replaced: %s", lost)
	}
	reports.replica = "replica-1"
	if _, lost := j.verdict(reports); lost == "" {
		t.Error("a report that another replica refused is no failure")
	}
}

// frame is one frame of AWS's event stream.
func frame(header, payload string) []byte {
	total := uint32(16 + len(header) + len(payload)) //nolint:gosec // small
	b := binary.BigEndian.AppendUint32(nil, total)
	b = binary.BigEndian.AppendUint32(b, uint32(len(header))) //nolint:gosec // small
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, header...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// What answers look like to their clients, however they arrive.
func TestEndings(t *testing.T) {
	byName := make(map[string]*dialect)
	for _, d := range dialects {
		byName[d.name] = d
	}
	const delta = `data: {"choices":[{"delta":{"content":"a \"error\" b"}}]}` + "\n\n"
	wrong := frame("h", "x")
	wrong[len(wrong)-1]++
	for _, test := range []struct {
		d, text string
		err     error
		want    ending
	}{
		{"chat", `{"choices":[]}`, io.EOF, complete},
		{"chat", `{"choices":[`, io.EOF, silent},
		{"chat", `{"choices":[`, io.ErrUnexpectedEOF, broken},
		{"chat, stream", delta + "data: [DONE]\n\n", io.EOF, complete},
		{"chat, stream", delta, io.EOF, silent},
		{"chat, stream", delta, io.ErrUnexpectedEOF, broken},
		{"chat, stream", delta + `data: {"error":{"code":500}}` + "\n\ndata: [DONE]\n\n", io.EOF, broken},
		{"chat, stream", "data: {half\n\ndata: [DONE]\n\n", io.EOF, silent},
		{"responses, stream", "event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n", io.EOF, complete},
		{"responses, stream", "data: {\"type\":\"response.failed\"}\n\n", io.EOF, broken},
		{"responses, stream", "data: {\"type\":\"response.created\"}\n\n", io.EOF, silent},
		{"messages, stream", "data: {\"type\":\"message_stop\"}\n\n", io.EOF, complete},
		{"messages, stream", "data: {\"type\":\"error\",\"error\":{}}\n\n", io.EOF, broken},
		{"invocations-response-stream", string(frame("h", delta)) + string(frame("h", "data: [DONE]\n\n")), io.EOF, complete},
		{"invocations-response-stream", string(frame("h", delta)), io.EOF, silent},
		{"invocations-response-stream", string(frame("h", delta)) + string(frame(":exception-type", "{}")), io.EOF, broken},
		{"invocations-response-stream", string(wrong), io.EOF, silent},
	} {
		for _, size := range []int{1, 7, 4096} {
			r := &reader{d: byName[test.d]}
			for rest := []byte(test.text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				r.take(rest[:min(size, len(rest))])
			}
			if got, why := r.end(test.err); got != test.want {
				t.Errorf("%s: %q, then %v, in pieces of %d: %s (%s), want %s", test.d, test.text, test.err, size, got, why, test.want)
			}
		}
	}
}

// Equal seeds make equal requests.
func TestPlans(t *testing.T) {
	a, b, other := newTraffic(nil, 3), newTraffic(nil, 3), newTraffic(nil, 4)
	seen := make(map[string]bool)
	differ := false
	for n := range 500 {
		p, q := a.plan(n), b.plan(n)
		if *p != *q {
			t.Fatalf("request %d: %+v and %+v", n, p, q)
		}
		differ = differ || p.prompt != other.plan(n).prompt
		seen[p.d.name] = true
		if !json.Valid(p.d.body(p.prompt, p.tokens)) {
			t.Errorf("request %d has no JSON body", n)
		}
	}
	if !differ || len(seen) != len(dialects) {
		t.Errorf("another seed makes other requests: %v; dialects: %v", differ, seen)
	}
}

// A link passes on, holds back, refuses and breaks.
func TestLink(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer web.Close()
	free := ports{next: 31_000}
	port, err := free.take()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(port, web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && string(text) != "hello" {
			err = errors.New(string(text))
		}
		return err
	}
	if err := ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.hold()
	held := make(chan error, 1)
	go func() { held <- ask(t.Context()) }()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it holds back: %v", err)
	}
	l.release()
	if err := <-held; err != nil {
		t.Errorf("what was held back: %v", err)
	}
	l.refuse()
	l.reset()
	if err := ask(t.Context()); err == nil {
		t.Error("a link that refuses let a request through")
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "dial" {
		t.Errorf("a link that refuses: %v", err)
	}
	if err := l.accept(); err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context()); err != nil {
		t.Errorf("after it accepts again: %v", err)
	}
}
