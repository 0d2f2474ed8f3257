package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// maxGap bounds the pause that a trace records between two requests of a session:
// what is longer is somebody at lunch.
const maxGap = 300 * time.Second

// lmcacheLine is one line of an agent trace of the LMCache project.
type lmcacheLine struct {
	Timestamp *int64          `json:"timestamp"` // microseconds
	Input     json.RawMessage `json:"input"`     // text, or a list of messages
	Output    string          `json:"output"`
	SessionID *string         `json:"session_id"`
}

// lmcacheMessage is one message of an input that is a list.
type lmcacheMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// LoadLMCache reads an agent trace of the LMCache project, plain or gzip: one JSON
// object a line, {"timestamp", "input", "output", "session_id"}. Sessions begin in
// the order of their first timestamps and keep the order of their lines. Every
// prompt is whole. An input that is text becomes one user message. The recorded
// answer only gives the length to ask for, reckoned at [BytesPerToken]. The error
// is a [*LineError].
func LoadLMCache(r io.Reader) (Text, error) {
	b := newTraceBuilder()
	err := eachRecord(r, func(raw []byte) error {
		var line lmcacheLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("not a request of an LMCache agent trace: %w", err)
		}
		return b.add(&line)
	})
	if err != nil {
		return Text{}, err
	}
	if len(b.sessions) == 0 {
		return Text{}, errNoRequests
	}
	return Text{Name: "LMCache agent trace", Sessions: b.text()}, nil
}

func (b *traceBuilder) add(line *lmcacheLine) error {
	switch {
	case line.SessionID == nil:
		return errors.New(`"session_id" is missing`)
	case line.Timestamp == nil:
		return errors.New(`"timestamp" is missing`)
	case *line.Timestamp < 0 || *line.Timestamp > math.MaxInt64/int64(time.Microsecond):
		return fmt.Errorf(`"timestamp": %d is not in microseconds`, *line.Timestamp)
	}
	messages, err := lmcacheInput(line.Input)
	if err != nil {
		return fmt.Errorf(`"input": %w`, err)
	}
	size := requestMemory
	for _, m := range messages {
		size += messageMemory + len(m.Role) + len(m.Content)
	}
	if err := b.kept.keep(size); err != nil {
		return err
	}
	b.append(*line.SessionID, time.Duration(*line.Timestamp)*time.Microsecond, Turn{
		Messages:     messages,
		Whole:        true,
		OutputTokens: reckonTokens(len(line.Output)),
	})
	return nil
}

// lmcacheInput reads a prompt that is text or a list of messages.
func lmcacheInput(raw json.RawMessage) ([]Message, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, errors.New("it is missing")
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return []Message{{Role: RoleUser, Content: text}}, nil
	}
	var list []lmcacheMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("neither text nor a list of messages: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("the list of messages is empty")
	}
	messages := make([]Message, 0, len(list))
	for i, m := range list {
		text, err := lmcacheContent(m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if m.Role == "" {
			return nil, fmt.Errorf("message %d: it has no role", i+1)
		}
		messages = append(messages, Message{Role: m.Role, Content: text})
	}
	return messages, nil
}

// lmcacheContent reads content that is text, null, or a list of text parts.
func lmcacheContent(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return "", nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content is neither text nor a list of parts: %w", err)
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content of type %q cannot be replayed: only text can", p.Type)
		}
		all.WriteString(p.Text)
	}
	return all.String(), nil
}
