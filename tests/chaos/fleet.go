package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	model    = "sim"
	endpoint = "chaos" // of SageMaker's paths
)

// What the replicas' configuration says of time. It is shorter than the defaults, so that
// minutes hold many faults; the rules are the same.
const (
	probeInterval = time.Second
	probeTimeout  = 2 * time.Second
	probeFailures = 2
	frozenAfter   = 5 * time.Second
	firstByte     = 12 * time.Second
	idle          = 12 * time.Second
	ejectionBase  = 2 * time.Second
	ejectionMax   = 8 * time.Second
	shutdownDelay = 4 * time.Second
	shutdownGrace = 30 * time.Second
)

// noticed is how long it may take at most until an engine that says nothing more gets no
// requests: its probes must fail, each as late as it may, on a machine that is busy.
const noticed = probeFailures*(probeInterval*11/10+probeTimeout) + 5*time.Second

// engine is an engine double behind a link.
type engine struct {
	*process

	id   string // host:port, as routers know it
	at   string // base URL without the link
	link *link
}

// replica is a router.
type replica struct {
	*process

	url, admin string
	file       string // its configuration
	redis      *link

	ready   atomic.Bool
	started atomic.Int64 // unix nanoseconds of the last start
}

// fleet is everything that runs.
type fleet struct {
	dir      string
	engines  []*engine
	replicas []*replica
	redis    *process // nil without one
	store    string   // its address
	plain    *http.Client
}

// build compiles the programs.
func build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(os.PathSeparator),
		"github.com/warmroute/warmroute/cmd/warmroute", "github.com/warmroute/warmroute/cmd/enginesim")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// launch starts engines, Redis and replicas with their files in dir, and returns when all
// of them work. close ends whatever was started, also after an error.
func launch(ctx context.Context, f *fleet, o *options) error {
	if err := build(ctx, f.dir); err != nil {
		return err
	}
	f.plain = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	free := ports{next: 12_000 + int(o.seed*977%18_000)} //nolint:gosec // small
	if err := f.startRedis(&free); err != nil {
		return err
	}
	for i := range o.engines {
		if err := f.startEngine(i, &free); err != nil {
			return err
		}
	}
	for i := range 2 {
		if err := f.startReplica(i, &free); err != nil {
			return err
		}
	}
	for _, r := range f.replicas {
		if err := f.awaitReady(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// await waits for something to come about.
func await(ctx context.Context, what string, within time.Duration, holds func() bool) error {
	end := time.Now().Add(within)
	for !holds() {
		if time.Now().After(end) {
			return fmt.Errorf("it did not come about within %v that %s", within, what)
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// pause waits, and reports false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (f *fleet) startRedis(free *ports) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w (on Debian: apt-get install redis-server)", err)
	}
	port, err := free.take()
	if err != nil {
		return err
	}
	f.store = fmt.Sprintf("127.0.0.1:%d", port)
	f.redis = newProcess(f.dir, "redis", program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1",
		"--dir", f.dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	return f.redis.start()
}

// startEngine starts an engine double and its link.
func (f *fleet) startEngine(i int, free *ports) error {
	own, err := free.take()
	if err != nil {
		return err
	}
	seen, err := free.take()
	if err != nil {
		return err
	}
	at := fmt.Sprintf("127.0.0.1:%d", own)
	l, err := newLink(seen, at)
	if err != nil {
		return err
	}
	e := &engine{
		process: newProcess(f.dir, fmt.Sprintf("engine-%d", i), filepath.Join(f.dir, "enginesim"),
			"--listen", at, "--model", model, "--seed", fmt.Sprint(i+1), "--kv-tokens", "120000"),
		id: l.addr, at: "http://" + at, link: l,
	}
	e.env = []string{"GOGC=400"} // doubles are to cost little of a machine that routers are measured on
	f.engines = append(f.engines, e)
	return f.runEngine(e)
}

// runEngine starts an engine that does not run, and returns when it answers.
func (f *fleet) runEngine(e *engine) error {
	if err := e.start(); err != nil {
		return err
	}
	return await(context.Background(), e.name+" answers", patience, func() bool {
		status, _, err := f.get(e.at + "/health")
		return err == nil && status == http.StatusOK
	})
}

// startReplica starts a router with a link to Redis of its own.
func (f *fleet) startReplica(i int, free *ports) error {
	var numbers [3]int
	for j := range numbers {
		var err error
		if numbers[j], err = free.take(); err != nil {
			return err
		}
	}
	l, err := newLink(numbers[0], f.store)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replica-%d", i)
	file := filepath.Join(f.dir, name+".yaml")
	r := &replica{
		process: newProcess(f.dir, name, filepath.Join(f.dir, "warmroute"), "serve", "--config", file,
			"--listen", fmt.Sprintf("127.0.0.1:%d", numbers[1]), "--admin-listen", fmt.Sprintf("127.0.0.1:%d", numbers[2])),
		url: fmt.Sprintf("http://127.0.0.1:%d", numbers[1]), admin: fmt.Sprintf("http://127.0.0.1:%d", numbers[2]),
		file: file, redis: l,
	}
	f.replicas = append(f.replicas, r)
	if err := f.configure(r, plain); err != nil {
		return err
	}
	r.started.Store(time.Now().UnixNano())
	return r.start()
}

// variant is what is special in a configuration.
type variant struct {
	without    string  // the id of an engine that is not listed
	loadFactor float64 // 0: the default
	broken     bool    // it makes no sense
}

var plain = variant{}

// configure writes a replica's configuration. The replica sees whole files only.
func (f *fleet) configure(r *replica, v variant) error {
	var text strings.Builder
	text.WriteString("version: 1\npools:\n  - name: chaos\n    models: [" + model + "]\n")
	text.WriteString("    sagemaker_endpoints: [" + endpoint + "]\n    backends:\n")
	for _, e := range f.engines {
		if e.id != v.without {
			fmt.Fprintf(&text, "      - url: http://%s\n", e.id)
		}
	}
	fmt.Fprintf(&text, "    ejection: {base: %v, max: %v, slow_start: 3s, max_cooling: 2s}\n", ejectionBase, ejectionMax)
	fmt.Fprintf(&text, "    routing: {replicas: 2, load_factor: %v}\n", max(v.loadFactor, 1.5))
	fmt.Fprintf(&text, "health: {interval: %v, timeout: %v, failures: %d, frozen_after: %v}\n",
		probeInterval, probeTimeout, probeFailures, frozenAfter)
	fmt.Fprintf(&text, "timeouts: {connect: 2s, first_byte: %v, idle: %v, shutdown_delay: %v, shutdown_grace: %v}\n",
		firstByte, idle, shutdownDelay, shutdownGrace)
	// What is bounded reaches its bounds within the first minutes.
	text.WriteString("limits: {index_blocks: 65536, recent_requests_bytes: 2MiB}\n")
	fmt.Fprintf(&text, "redis: {addresses: [%q]}\nlog: {format: json}\n", r.redis.addr)
	if v.broken {
		text.WriteString("timeouts: [nonsense\n")
	}
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.file)
}

// awaitReady waits until a replica says that it is ready, as a load balancer would.
func (f *fleet) awaitReady(ctx context.Context, r *replica) error {
	return await(ctx, r.name+" is ready", patience, func() bool {
		f.look(r)
		return r.ready.Load()
	})
}

// look asks a replica whether it is ready.
func (f *fleet) look(r *replica) {
	status, _, err := f.get(r.admin + "/readyz")
	r.ready.Store(err == nil && status == http.StatusOK)
}

// restart replaces a replica: SIGTERM, its end in its own time, and a new process.
func (f *fleet) restart(ctx context.Context, r *replica) error {
	if err := r.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := r.wait(shutdownDelay + shutdownGrace + patience); err != nil {
		return fmt.Errorf("after SIGTERM %s did not end well: %w", r.name, err)
	}
	return f.run(ctx, r)
}

// run starts a replica that does not run, and returns when it is ready.
func (f *fleet) run(ctx context.Context, r *replica) error {
	r.ready.Store(false)
	if err := f.configure(r, plain); err != nil {
		return err
	}
	r.started.Store(time.Now().UnixNano())
	if err := r.start(); err != nil {
		return err
	}
	return f.awaitReady(ctx, r)
}

// get asks for something, without keeping the connection.
func (f *fleet) get(url string) (status int, body []byte, err error) {
	resp, err := f.plain.Get(url) //nolint:noctx // the client has a timeout
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// fault breaks or mends an engine double from within.
func (f *fleet) fault(e *engine, body string) error {
	resp, err := f.plain.Post(e.at+"/sim/fault", "application/json", strings.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: fault %s: %d %s", e.name, body, resp.StatusCode, text)
	}
	return nil
}

// tellRedis sends Redis a command without arguments.
func (f *fleet) tellRedis(command string) error {
	conn, err := net.DialTimeout("tcp", f.store, patience) //nolint:noctx // bounded
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 256)
	n, err := conn.Read(answer)
	if err == nil && !bytes.HasPrefix(answer[:n], []byte("+")) {
		err = fmt.Errorf("redis: %s: %s", command, answer[:n])
	}
	return err
}

// busy is how many sequences an engine works on.
func (f *fleet) busy(e *engine) (int, error) {
	status, body, err := f.get(e.at + "/sim/state")
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("%s: /sim/state: %d, %w", e.name, status, err)
	}
	var state struct {
		Engines []struct{ Arriving, Waiting, Running int }
	}
	if err := json.Unmarshal(body, &state); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range state.Engines {
		n += s.Arriving + s.Waiting + s.Running
	}
	return n, nil
}

// close ends everything.
func (f *fleet) close() error {
	var errs []error
	for _, r := range f.replicas {
		errs = append(errs, r.kill())
		r.redis.close()
	}
	for _, e := range f.engines {
		errs = append(errs, e.kill())
		e.link.close()
	}
	if f.redis != nil {
		errs = append(errs, f.redis.kill())
	}
	return errors.Join(errs...)
}
