package workload

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/kvindex"
)

// LoggedRequest is one finished request as the request log holds it, one JSON object a
// line: hashes, lengths, times and names of the configuration, and nothing of what was
// asked or answered.
type LoggedRequest struct {
	// Arrived is when it arrived; RFC 3339 in UTC, with nanoseconds.
	Arrived time.Time `json:"arrived"`
	// Pool, Strategy, Reason and Backend are those of the last decision; all but Pool are
	// empty where there was none.
	Pool     string `json:"pool"`
	Strategy string `json:"strategy,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Backend  string `json:"backend,omitempty"`
	// Result is how it ended, Status what the client was told.
	Result string `json:"result"`
	Status int    `json:"status"`
	// TTFTSeconds is from the arrival to the first data of the answer, 0 where there was
	// none; DurationSeconds from the arrival to the end.
	TTFTSeconds     float64 `json:"ttft_seconds,omitempty"`
	DurationSeconds float64 `json:"duration_seconds"`
	// PromptTokens, CachedTokens and OutputTokens are what the engine reported, nil where
	// it did not.
	PromptTokens *int `json:"prompt_tokens,omitempty"`
	CachedTokens *int `json:"cached_tokens,omitempty"`
	OutputTokens *int `json:"output_tokens,omitempty"`
	// StreamBytes is the length of the prompt key stream, of which each key names
	// BlockBytes, and all before them. What is beyond the last key has none.
	StreamBytes int       `json:"stream_bytes"`
	BlockBytes  int       `json:"block_bytes"`
	Keys        BlockKeys `json:"keys"`
}

// BlockKeys are block keys that are written as text: 8 bytes each, little-endian, all of
// them in base64.
type BlockKeys []kvindex.Key

const keyBytes = 8

// MarshalText implements [encoding.TextMarshaler].
func (k BlockKeys) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, len(k)*keyBytes)
	for _, key := range k {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(key))
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *BlockKeys) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("block keys: %w", err)
	}
	if len(raw)%keyBytes != 0 {
		return fmt.Errorf("block keys: %d bytes are not a number of keys of %d", len(raw), keyBytes)
	}
	*k = make(BlockKeys, 0, len(raw)/keyBytes)
	for ; len(raw) > 0; raw = raw[keyBytes:] {
		*k = append(*k, kvindex.Key(binary.LittleEndian.Uint64(raw)))
	}
	return nil
}

// AppendLine appends the request as a line of the log, its end included. A request that
// could not be read back is an error.
func (r *LoggedRequest) AppendLine(dst []byte) ([]byte, error) {
	if err := r.validate(); err != nil {
		return dst, fmt.Errorf("request log: %w", err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("request log: %w", err)
	}
	return append(append(dst, line...), '\n'), nil
}

// ParseLoggedRequest reads a line of the log.
func ParseLoggedRequest(line []byte) (LoggedRequest, error) {
	var r LoggedRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return LoggedRequest{}, fmt.Errorf("not a request of a request log: %w", err)
	}
	if err := r.validate(); err != nil {
		return LoggedRequest{}, err
	}
	if r.Keys == nil {
		return LoggedRequest{}, errors.New(`"keys" is missing`)
	}
	return r, nil
}

// validate names the first field that is missing or makes no sense.
func (r *LoggedRequest) validate() error {
	switch {
	case r.Arrived.IsZero():
		return errors.New(`"arrived" is missing`)
	case r.Arrived.Year() < 1970 || r.Arrived.Year() > 2200: // what nanoseconds can count
		return fmt.Errorf(`"arrived": %v is not in the years 1970..2200`, r.Arrived)
	case r.Pool == "":
		return errors.New(`"pool" is missing`)
	case r.StreamBytes < 0 || r.StreamBytes > maxStream:
		return fmt.Errorf(`"stream_bytes": %d is not in 0..%d`, r.StreamBytes, maxStream)
	case r.BlockBytes < 1 || r.BlockBytes > maxStream:
		return fmt.Errorf(`"block_bytes": %d is not in 1..%d`, r.BlockBytes, maxStream)
	case len(r.Keys) > r.StreamBytes/r.BlockBytes:
		return fmt.Errorf(`"keys": %d blocks of %d bytes are more than "stream_bytes", %d`, len(r.Keys), r.BlockBytes, r.StreamBytes)
	}
	for _, f := range []struct {
		name   string
		tokens *int
	}{{"prompt_tokens", r.PromptTokens}, {"cached_tokens", r.CachedTokens}, {"output_tokens", r.OutputTokens}} {
		if f.tokens == nil {
			continue
		}
		if err := checkTokens(f.name, f.tokens, 0); err != nil {
			return err
		}
	}
	return nil
}
