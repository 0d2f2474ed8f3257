package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmroute/warmroute/internal/gateway"
)

const (
	// readyWait is how long a service manager waits for the router to be ready. One whose
	// engines take longer is running all the same: it answers 503 until they are there, and
	// a manager that starts it again would change nothing.
	readyWait = 20 * time.Second
	// readyLook is how often the router is asked meanwhile.
	readyLook = 50 * time.Millisecond
	// statusLook is how often the manager is told how the router is, where that has changed.
	statusLook = 10 * time.Second
)

// manager is the service manager that has started the process: systemd, or another that
// speaks its protocol (sd_notify(3)). Where there is none its methods do nothing.
type manager struct {
	logger *slog.Logger

	mu    sync.Mutex
	state managed
	last  string // the status that was told last
}

// managed is what a service manager knows of the process.
type managed int

const (
	starting managed = iota
	running
	stopping
)

// follow tells the manager when the router is ready, that it still works, and when it stops
// (stop ends), until it has stopped (ended ends).
func (m *manager) follow(stop, ended context.Context, g *gateway.Gateway) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.logger.Warn("the service manager's watchdog is not understood", slog.String("error", err.Error()))
	}
	if m.await(stop, ended, g) {
		m.become(running, daemon.SdNotifyReady, status(g))
	}
	every := statusLook
	if watchdog > 0 {
		every = min(every, watchdog/2)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	done := stop.Done()
	for {
		select {
		case <-ended.Done():
			return
		case <-done:
			done = nil
			// The manager's own patience (TimeoutStopSec) may be shorter than the grace.
			patience := g.ShutdownTime()
			m.become(stopping, daemon.SdNotifyStopping, fmt.Sprintf("STATUS=stopping: requests have up to %v\nEXTEND_TIMEOUT_USEC=%d", patience, patience.Microseconds()))
			continue
		case <-tick.C:
		}
		// To find out how the router is takes its locks: one that is stuck is not vouched for.
		text := status(g)
		if watchdog > 0 {
			m.tell(daemon.SdNotifyWatchdog)
		}
		m.say(text)
	}
}

// await returns when the router is ready, or has been given time enough. It reports false when
// the router stops, or has stopped, before.
func (m *manager) await(stop, ended context.Context, g *gateway.Gateway) bool {
	tick := time.NewTicker(readyLook)
	defer tick.Stop()
	for end := time.Now().Add(readyWait); time.Now().Before(end); {
		if ready, _ := g.Ready(); ready {
			break
		}
		select {
		case <-stop.Done():
			return false
		case <-ended.Done():
			return false
		case <-tick.C:
		}
	}
	return stop.Err() == nil && ended.Err() == nil
}

// status is how the router is, for people.
func status(g *gateway.Gateway) string {
	_, words := g.Ready()
	return "STATUS=" + words
}

// become tells the manager that the process has come to another state.
func (m *manager) become(next managed, state, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.last = next, text
	m.tell(state + "\n" + text)
}

// say tells the manager how the router is, if that is another than before.
func (m *manager) say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == running && text != m.last {
		m.last = text
		m.tell(text)
	}
}

// reload has the manager know that the configuration is read again while f does that: systemctl
// reload waits for its end.
func (m *manager) reload(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != running {
		f()
		return
	}
	m.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	f()
	m.tell(daemon.SdNotifyReady)
}

func (m *manager) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.logger.Warn("the service manager is not told", slog.String("state", state), slog.String("error", err.Error()))
	}
}
