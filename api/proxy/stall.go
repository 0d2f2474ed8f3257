package proxy

import (
	"net/http"
	"time"
)

// A client that neither sends nor takes anything must not hold memory, or an engine's
// slot, for ever.
const (
	// sendStall is how long a client may pause while it sends its body, and how long
	// it may take for all of it beyond a second for each sendRate bytes that arrived.
	sendStall = time.Minute
	sendRate  = 16 << 10
	// takeStall is how long a client may take nothing of an answer that waits for
	// it. Half of that or more is noticed.
	takeStall = 5 * time.Minute
	// takeFreely is the size of an answer that needs no limit: it fits into the
	// buffers of the connection, more or less.
	takeFreely = 256 << 10
)

// stall bounds the pauses of a client by the deadlines of its connection.
type stall struct {
	control *http.ResponseController
	began   time.Time // when the body was read first
	slow    bool      // the deadline for reading is that of the whole body
	set     time.Time // when the deadline for writing was set last
	strict  bool      // a deadline for writing ends the answer although nothing is being written
}

func newStall(w http.ResponseWriter, r *http.Request) stall {
	return stall{control: http.NewResponseController(w), strict: r.ProtoMajor > 1}
}

// send allows the next piece of the body its time, after n bytes of it. Where the
// connection knows no deadlines there is no limit.
func (s *stall) send(n int64) {
	now := time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	pause, whole := now.Add(sendStall), s.began.Add(sendStall+time.Duration(n/sendRate)*time.Second)
	if s.slow = whole.Before(pause); s.slow {
		pause = whole
	}
	_ = s.control.SetReadDeadline(pause)
}

// sent ends the limit. Without that, waiting for the client to leave would end it.
func (s *stall) sent() { _ = s.control.SetReadDeadline(time.Time{}) }

// take allows the next write its time.
func (s *stall) take() {
	if now := time.Now(); s.strict || now.Sub(s.set) > takeStall/2 {
		s.set = now
		_ = s.control.SetWriteDeadline(now.Add(takeStall))
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
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}
