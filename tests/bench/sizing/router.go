package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// router is a router that runs as a process.
type router struct {
	cmd         *exec.Cmd
	dir         string
	data, admin string
}

var loopback = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// launch starts a router over a fleet and returns when it is ready.
func launch(ctx context.Context, program string, f *fleet, more string) (*router, error) {
	dir, err := os.MkdirTemp("", "sizing")
	if err != nil {
		return nil, err
	}
	r := &router{dir: dir}
	var file strings.Builder
	// All that a request may cost is on, but for the log's way to a disk.
	file.WriteString("version: 1\nlisten: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nscrape: {enabled: false}\npools:\n  - name: default\n    backends:\n")
	for _, s := range f.servers {
		fmt.Fprintf(&file, "      - url: %s\n", s.URL)
	}
	file.WriteString(more)
	path := filepath.Join(dir, "warmroute.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.cmd = exec.CommandContext(ctx, program, "serve", "--config", path, "--log-format", "json") //nolint:gosec // what the command line names
	stdout, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	lines := bufio.NewScanner(stdout)
	for r.admin == "" && lines.Scan() {
		if url := loopback.FindString(lines.Text()); url != "" && r.data == "" {
			r.data = url
		} else if url != "" {
			r.admin = url
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	for ctx.Err() == nil {
		if _, err := r.get(ctx, "/readyz"); err == nil {
			return r, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.stop()
	return nil, fmt.Errorf("the router is never ready: %w", ctx.Err())
}

func (r *router) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Wait()
	_ = os.RemoveAll(r.dir)
}

// get reads a page of the admin port.
func (r *router) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// heap is what is in use after a collection, in bytes, and how many entries the index has.
func (r *router) heap(ctx context.Context) (bytes int64, blocks int, err error) {
	if _, err := r.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return 0, 0, err
	}
	metrics, err := r.get(ctx, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	found := regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`).FindSubmatch(metrics)
	if found == nil {
		return 0, 0, errors.New("there is no go_memstats_heap_alloc_bytes")
	}
	used, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return 0, 0, err
	}
	text, err := r.get(ctx, "/debug/state")
	if err != nil {
		return 0, 0, err
	}
	var state struct {
		Pools []struct {
			Backends []struct {
				Blocks int `json:"index_blocks"`
			}
		}
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return 0, 0, err
	}
	for _, p := range state.Pools {
		for _, b := range p.Backends {
			blocks += b.Blocks
		}
	}
	return int64(used), blocks, nil
}

// ticks is the unit of /proc/PID/stat: every Linux that Go runs on has 100 a second.
const ticks = 10 * time.Millisecond

// processorTime is what the process has computed so far, the system's part included.
func (r *router) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * ticks, errors.Join(err1, err2)
}

// resident is how much memory the process has, in bytes.
func (r *router) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// cpu is the processor's name.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	found := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(text)
	if found == nil {
		return "an unknown processor"
	}
	return string(found[1])
}
