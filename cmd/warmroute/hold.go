package main

import (
	"bytes"
	"io"
	"sync"
)

// maxHeld is how much is held back at most, in bytes.
const maxHeld = 64 << 10

// holder holds back what is logged until the start-up summary is printed, so that the
// two do not mix on a terminal. It is safe for concurrent use.
type holder struct {
	mu   sync.Mutex
	to   io.Writer
	held bytes.Buffer
	open bool
}

// Write implements io.Writer.
func (h *holder) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open {
		return h.to.Write(p)
	}
	n, err := h.held.Write(p)
	if h.held.Len() > maxHeld {
		h.pass()
	}
	return n, err
}

// release passes on what was held back, and from now on everything at once.
func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass()
}

// pass is release with h.mu held.
func (h *holder) pass() {
	h.open = true
	_, _ = h.held.WriteTo(h.to) // as with any log: there is nobody to tell
}
