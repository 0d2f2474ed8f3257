package usage

import (
	"bytes"
	"net/http"
	"sync"
)

// Stance is what is known of a backend that streams were made to report usage on.
type Stance uint8

// The stances.
const (
	Untried Stance = iota
	Given
	Refused
)

// maxStances bounds what is remembered where backends come and go.
const maxStances = 4096

// Stances remembers, by whatever names a backend, which refuse
// stream_options.include_usage. The zero value is ready; its methods may be called at the
// same time.
type Stances[K comparable] struct {
	mu      sync.RWMutex
	stances map[K]Stance
}

// Of returns what is known of a backend.
func (m *Stances[K]) Of(backend K) Stance {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stances[backend]
}

// Learn remembers what a backend did.
func (m *Stances[K]) Learn(backend K, s Stance) {
	if m.Of(backend) == s {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stances == nil || len(m.stances) >= maxStances {
		m.stances = make(map[K]Stance)
	}
	m.stances[backend] = s
}

// Blamed reports whether an answer, whose leading bytes are given, may be a refusal of the
// option that was added to the request. From a backend that has accepted it before, only a
// refusal that names it is; from another one, all but those that are plainly about the
// prompt's length.
func (s Stance) Blamed(status int, answer []byte) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	text := bytes.ToLower(answer)
	if bytes.Contains(text, []byte("stream_options")) || bytes.Contains(text, []byte("include_usage")) {
		return true
	}
	if s == Given {
		return false
	}
	for _, plain := range []string{"context length", "context_length", "maximum context", "max_model_len", "max_tokens", "too long"} {
		if bytes.Contains(text, []byte(plain)) {
			return false
		}
	}
	return true
}
