package rpc

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/warmroute/warmroute/api/intake"
)

// bounded bounds what calls take of this process while their messages arrive: the bytes
// of all of them together with those of the proxy's bodies, and the time of each.
func (s *Service) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &messages{
			ReadCloser: r.Body,
			budget:     s.options.Bodies,
			pace:       intake.Pace{Control: http.NewResponseController(w)},
			patient:    r.ContentLength == 0, // else net/http waits for the client to leave already
		}
		body.share.Open(s.options.Bodies)
		defer body.end()
		bounded := *r
		bounded.Body = body
		next.ServeHTTP(w, &bounded)
	})
}

// messages is the body of a call.
type messages struct {
	io.ReadCloser

	budget  *intake.Budget
	share   intake.Share
	pace    intake.Pace
	patient bool
	n       int64
	paced   time.Time // when the deadline was set last
}

// paceEvery is how long the deadline for reading is left as it is: setting it costs more
// than reading what has arrived.
const paceEvery = time.Second

// Read implements [io.Reader]. Its errors have codes.
func (m *messages) Read(p []byte) (int, error) {
	if now := time.Now(); !m.patient && now.Sub(m.paced) >= paceEvery {
		m.paced = now
		m.pace.Send(m.n)
	}
	n, err := m.ReadCloser.Read(p)
	m.n += int64(n)
	switch {
	case !m.share.Hold(m.n):
		return n, failure(busy(m.budget))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("request body comes too slowly: it may pause for %v, and take that and one second for each %d KiB", intake.SendStall, intake.SendRate>>10))
	case err != nil && !m.patient:
		m.pace.Sent()
		m.patient = true
	}
	return n, err
}

func (m *messages) end() {
	if !m.patient {
		m.pace.Sent()
	}
	m.share.Release()
}

func busy(b *intake.Budget) error {
	return &limitError{
		fmt.Sprintf("too many request bodies at once: they are limited to %d bytes together (limits.bodies_in_flight_bytes)", b.Limit()),
		time.Second,
	}
}
