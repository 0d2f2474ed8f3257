package intake

import (
	"net/http"
	"time"
)

// SendStall is how long a client may pause while it sends its body, and how long it
// may take for all of it beyond a second for each SendRate bytes that arrived.
const (
	SendStall = time.Minute
	SendRate  = 16 << 10
)

// Pace bounds the time that a body takes to arrive, by the deadline for reading of its
// connection. Where that knows none there is no limit.
type Pace struct {
	// Control sets the deadlines.
	Control *http.ResponseController
	// Slow says that the deadline that was set last is that of the whole body, not of
	// a pause.
	Slow bool

	began time.Time
}

// Send allows the next piece of the body its time, after n bytes of it.
func (p *Pace) Send(n int64) {
	now := time.Now()
	if p.began.IsZero() {
		p.began = now
	}
	pause, whole := now.Add(SendStall), p.began.Add(SendStall+time.Duration(n/SendRate)*time.Second)
	if p.Slow = whole.Before(pause); p.Slow {
		pause = whole
	}
	_ = p.Control.SetReadDeadline(pause)
}

// Sent ends the limit. Without that, waiting for the client to leave would end it.
func (p *Pace) Sent() { _ = p.Control.SetReadDeadline(time.Time{}) }
