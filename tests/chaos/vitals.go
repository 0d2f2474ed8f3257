package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// vitals are what a replica says of its own process.
type vitals struct {
	At         time.Time `json:"at"`
	Replica    string    `json:"replica"`
	Started    int64     `json:"-"` // of the process, unix nanoseconds
	RSS        float64   `json:"rss_bytes"`
	Heap       float64   `json:"heap_in_use_bytes"`
	Goroutines float64   `json:"goroutines"`
	FDs        float64   `json:"open_fds"`
	Bodies     float64   `json:"body_bytes_in_flight"`
	InFlight   float64   `json:"in_flight"`
	Waiting    float64   `json:"waiting"`
	Lowest     float64   `json:"-"` // of the in-flight counts
	Reloaded   float64   `json:"-"`
}

// observe reads a replica's vitals. With collect its garbage is collected before.
func (f *fleet) observe(r *replica, collect bool) (v vitals, err error) {
	if collect {
		if _, _, err := f.get(r.admin + "/debug/pprof/heap?gc=1"); err != nil {
			return v, err
		}
	}
	v.Started = r.started.Load()
	status, body, err := f.get(r.admin + "/metrics")
	if err != nil || status != http.StatusOK {
		return v, fmt.Errorf("%s: /metrics: %d, %w", r.name, status, err)
	}
	v.At, v.Replica = time.Now(), r.name
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		n, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			continue
		}
		switch name, _, _ := strings.Cut(line[:space], "{"); name {
		case "process_resident_memory_bytes":
			v.RSS = n
		case "go_memstats_heap_inuse_bytes":
			v.Heap = n
		case "go_goroutines":
			v.Goroutines = n
		case "process_open_fds":
			v.FDs = n
		case "warmroute_body_bytes_in_flight":
			v.Bodies = n
		case "warmroute_backend_in_flight":
			v.InFlight += n
			v.Lowest = min(v.Lowest, n)
		case "warmroute_waiting_requests":
			v.Waiting += n
		case "warmroute_config_last_reload_successful":
			v.Reloaded = n
		}
	}
	return v, lines.Err()
}

// load is what a replica counts, of /debug/state.
type load struct {
	Sharing *struct {
		State string
		Peers int
	}
	Pools []struct {
		Waiting  int
		Backends []struct {
			ID       string
			State    string
			InFlight int `json:"in_flight"`
			Queued   int `json:"queued_tokens"`
		}
	}
}

func (f *fleet) load(r *replica) (l load, err error) {
	status, body, err := f.get(r.admin + "/debug/state")
	if err != nil || status != http.StatusOK {
		return l, fmt.Errorf("%s: /debug/state: %d, %w", r.name, status, err)
	}
	return l, json.Unmarshal(body, &l)
}

// watch keeps vitals of all replicas, and asks whether they are ready.
type watch struct {
	fleet *fleet

	mu       sync.Mutex
	samples  []vitals
	negative int // times that a count was below 0
}

// run takes vitals once in every until ctx ends, and looks four times a second at readiness,
// as a load balancer does.
func (w *watch) run(ctx context.Context, every time.Duration) {
	var looks sync.WaitGroup
	defer looks.Wait()
	for _, r := range w.fleet.replicas {
		looks.Go(func() {
			for pause(ctx, 250*time.Millisecond) {
				w.fleet.look(r)
			}
		})
	}
	for pause(ctx, every) {
		for _, r := range w.fleet.replicas {
			v, err := w.fleet.observe(r, false)
			if err != nil {
				continue // it is being replaced
			}
			w.mu.Lock()
			w.samples = append(w.samples, v)
			if v.Lowest < 0 {
				w.negative++
			}
			w.mu.Unlock()
		}
	}
}

// heldUp is how late this program must get on for it to be noted: then clients, routers and
// engines may be late as well, on the same machine, and time limits pass that would not.
const heldUp = 500 * time.Millisecond

// held is how the machine held this program up.
type held struct {
	Times   int           `json:"times"`
	Longest time.Duration `json:"longest_ns"`
}

// run looks how late it is woken up, until ctx ends.
func (h *held) run(ctx context.Context) {
	const nap = 20 * time.Millisecond
	for {
		before := time.Now()
		if !pause(ctx, nap) {
			return
		}
		if late := time.Since(before) - nap; late > heldUp {
			h.Times++
			h.Longest = max(h.Longest, late)
		}
	}
}

// settling bounds the wait for counts to be 0. A decision whose caller left just as it came is counted
// until its lease ends.
const settling = lease + patience

// settled waits until nothing is counted any more, and returns what still is after that.
func (f *fleet) settled(ctx context.Context) (left []string) {
	look := func() bool {
		left = nil
		for _, r := range f.replicas {
			left = append(left, f.remains(r)...)
		}
		for _, e := range f.engines {
			if n, err := f.busy(e); err != nil {
				left = append(left, err.Error())
			} else if n > 0 {
				left = append(left, fmt.Sprintf("%s works on %d sequences", e.name, n))
			}
		}
		return len(left) == 0
	}
	_ = await(ctx, "nothing is counted", settling, look) // left says what is
	return left
}

// remains are the counts of a replica that are not 0, and what else is not as it should be.
func (f *fleet) remains(r *replica) (left []string) {
	add := func(format string, args ...any) { left = append(left, r.name+": "+fmt.Sprintf(format, args...)) }
	l, err := f.load(r)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range l.Pools {
		if p.Waiting != 0 {
			add("%d requests wait for a slot", p.Waiting)
		}
		if len(p.Backends) != len(f.engines) {
			add("%d backends, want %d", len(p.Backends), len(f.engines))
		}
		for _, b := range p.Backends {
			if b.InFlight != 0 || b.Queued != 0 {
				add("%s has %d in flight, %d tokens queued", b.ID, b.InFlight, b.Queued)
			}
			if b.State != "up" {
				add("%s is %s", b.ID, b.State)
			}
		}
	}
	if l.Sharing == nil || l.Sharing.State != "fresh" || l.Sharing.Peers != len(f.replicas)-1 {
		add("sharing is %+v", l.Sharing)
	}
	v, err := f.observe(r, false)
	if err != nil {
		return append(left, err.Error())
	}
	if v.Bodies != 0 || v.InFlight != 0 || v.Waiting != 0 {
		add("metrics say %v body bytes, %v in flight, %v waiting", v.Bodies, v.InFlight, v.Waiting)
	}
	if v.Reloaded != 1 {
		add("the last reload failed")
	}
	return left
}
