package proxy

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/warmroute/warmroute/backends"
)

// usageStance is what is known of a backend that streams were made to report usage
// on.
type usageStance uint8

const (
	usageUntried usageStance = iota
	usageGiven
	usageRefused
)

// maxStances bounds what is remembered where backends come and go.
const maxStances = 4096

// usageMemory remembers which backends refuse stream_options.include_usage. The zero
// value is ready.
type usageMemory struct {
	mu      sync.RWMutex
	stances map[*backends.Backend]usageStance
}

func (m *usageMemory) stance(b *backends.Backend) usageStance {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stances[b]
}

func (m *usageMemory) learn(b *backends.Backend, s usageStance) {
	if m.stance(b) == s {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stances == nil || len(m.stances) >= maxStances {
		m.stances = make(map[*backends.Backend]usageStance)
	}
	m.stances[b] = s
}

// blamesUsage reports whether a refusal may be about the option that was added to
// the request. From a backend that has accepted it before, only a refusal that names
// it is; from another one, all but those that are plainly about the prompt's length.
func blamesUsage(status int, body []byte, known usageStance) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	text := bytes.ToLower(body)
	if bytes.Contains(text, []byte("stream_options")) || bytes.Contains(text, []byte("include_usage")) {
		return true
	}
	if known == usageGiven {
		return false
	}
	for _, plain := range []string{"context length", "context_length", "maximum context", "max_model_len", "max_tokens", "too long"} {
		if bytes.Contains(text, []byte(plain)) {
			return false
		}
	}
	return true
}
