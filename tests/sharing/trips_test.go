package sharing

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/kvindex/redisindex/redistest"
)

// meter passes connections on to a server and counts what goes through.
type meter struct {
	addr           string
	trips, reads   atomic.Int64 // round trips; those that wait for news of a stream
	received, sent atomic.Int64 // bytes, as the server sees them
	mu             sync.Mutex
	connections    []net.Conn
	carriers       sync.WaitGroup
	listener       net.Listener
}

// measure starts a meter, and ends it with the test.
func measure(t *testing.T, server string) *meter {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{addr: l.Addr().String(), listener: l}
	m.carriers.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			m.carriers.Go(func() { m.carry(client, server) })
		}
	})
	t.Cleanup(m.close)
	return m
}

func (m *meter) close() {
	m.listener.Close()
	m.mu.Lock()
	for _, c := range m.connections {
		c.Close()
	}
	m.mu.Unlock()
	m.carriers.Wait()
}

// carry passes one connection on. A round trip begins when the client speaks after the
// server.
func (m *meter) carry(client net.Conn, address string) {
	server, err := net.Dial("tcp", address) //nolint:noctx // loopback
	if err != nil {
		client.Close()
		return
	}
	m.mu.Lock()
	m.connections = append(m.connections, client, server)
	m.mu.Unlock()
	var answered atomic.Bool
	answered.Store(true)
	m.carriers.Go(func() {
		m.pass(client, server, &m.sent, func([]byte) { answered.Store(true) })
	})
	m.pass(server, client, &m.received, func(data []byte) {
		if !answered.Swap(false) {
			return
		}
		if bytes.Contains(data[:min(len(data), 64)], []byte("xread")) {
			m.reads.Add(1)
		} else {
			m.trips.Add(1)
		}
	})
}

func (m *meter) pass(to io.WriteCloser, from io.ReadCloser, count *atomic.Int64, each func([]byte)) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		count.Add(int64(n))
		each(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestRoundTrips: a router makes no more than one round trip in 10 ms beside the reads of
// the stream, whatever the rate of requests.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	const length, most = 16, 100 // blocks of a prompt; round trips in a second
	server := redistest.Start(t)
	m := measure(t, server.Addr)
	r := launch(t, settings(m.addr), 100_000)
	r.add("b0:80")
	r.awaitShared()
	spell := time.Second
	for _, rate := range []int{0, 50, 500, 2000} {
		trips, reads := m.trips.Load(), m.reads.Load()
		received, sent := m.received.Load(), m.sent.Load()
		commands := r.index.Status().Commands
		began := time.Now()
		asked := int(spell.Seconds()) * rate
		if rate == 0 {
			<-time.After(spell)
		} else {
			paced(asked, rate, func(i int) { r.ask(chain(uint64(rate*10_000+i), length)) })
		}
		took := time.Since(began).Seconds()
		got := float64(m.trips.Load()-trips) / took
		each := float64(max(asked, 1))
		t.Logf("%4.0f requests/s of %d blocks: %3.0f round trips and %3.0f stream reads a second; for each request %4.1f commands that write, %5.2f kB in, %5.2f kB out",
			float64(asked)/took, length, got, float64(m.reads.Load()-reads)/took,
			float64(r.index.Status().Commands-commands)/each, float64(m.received.Load()-received)/each/1e3, float64(m.sent.Load()-sent)/each/1e3)
		if got > most {
			t.Errorf("%.0f round trips a second at %d requests/s, want at most %d", got, rate, most)
		}
	}
}
