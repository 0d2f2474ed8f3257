package proxy

import (
	"net/http"
	"time"

	"github.com/warmroute/warmroute/api/intake"
)

// A client that neither sends nor takes anything must not hold memory, or an engine's
// slot, for ever.
const (
	// takeStall is how long a client may take nothing of an answer that waits for
	// it. Half of that or more is noticed.
	takeStall = 5 * time.Minute
	// takeFreely is the size of an answer that needs no limit: it fits into the
	// buffers of the connection, more or less.
	takeFreely = 256 << 10
)

// stall bounds the pauses of a client by the deadlines of its connection.
type stall struct {
	intake.Pace

	set    time.Time // when the deadline for writing was set last
	strict bool      // a deadline for writing ends the answer although nothing is being written
}

func newStall(w http.ResponseWriter, r *http.Request) stall {
	return stall{Pace: intake.Pace{Control: http.NewResponseController(w)}, strict: r.ProtoMajor > 1}
}

// take allows the next write its time.
func (s *stall) take() {
	if now := time.Now(); s.strict || now.Sub(s.set) > takeStall/2 {
		s.set = now
		_ = s.Control.SetWriteDeadline(now.Add(takeStall))
	}
}

// took ends the limit where it would hold for the engine's pauses too.
func (s *stall) took() {
	if s.strict {
		s.taken()
	}
}

// taken ends the limit, or it would hold for the connection's next answer.
func (s *stall) taken() {
	if !s.set.IsZero() {
		_ = s.Control.SetWriteDeadline(time.Time{})
	}
}
