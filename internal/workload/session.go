package workload

import (
	"fmt"
	"time"
)

// The roles of messages.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// BytesPerToken is what workloads reckon a token at where they only have text.
const BytesPerToken = 4

// reckonTokens is how many tokens a text of so many bytes is reckoned at, at least 1.
func reckonTokens(bytes int) int { return max(1, (bytes+BytesPerToken-1)/BytesPerToken) }

// Message is one message of a chat.
type Message struct {
	// Role is who speaks, one of the Role constants or what a trace says.
	Role string `json:"role"`
	// Content is the text.
	Content string `json:"content"`
}

// Turn is one request of a session.
type Turn struct {
	// Messages are what this request adds to the conversation, or all of it when
	// Whole is set.
	Messages []Message
	// Whole says that Messages do not continue the conversation but replace it, as
	// in traces that record every prompt in full.
	Whole bool
	// Think is how long the request waits after the end of the answer before it; the
	// first of a session, after whoever sends it has ended another session.
	Think time.Duration
	// Gap is how long it waits at least after the start of the request before it;
	// for traces that say when requests began but not when answers ended.
	Gap time.Duration
	// OutputTokens is the length of the answer to ask for, at least 1.
	OutputTokens int
}

// Session is a run of requests in which each waits for the answer to the one
// before.
type Session struct {
	// ID names the session within its workload.
	ID string
	// Start is when the session began, from the beginning of the workload. Players
	// of closed loops may ignore it.
	Start time.Duration
	// Turns are the requests, in order.
	Turns []Turn
}

// Text is a workload of text.
type Text struct {
	// Name says what it is, for people.
	Name string
	// Sessions are the sessions, in the order in which they begin.
	Sessions []Session
}

// Requests returns how many requests the workload has.
func (t Text) Requests() int {
	n := 0
	for _, s := range t.Sessions {
		n += len(s.Turns)
	}
	return n
}

// Limit returns the workload cut to its first n requests, counted session by
// session; the last session may be cut short. 0 or less is no limit.
func (t Text) Limit(n int) Text {
	if n <= 0 {
		return t
	}
	out := Text{Name: t.Name}
	for _, s := range t.Sessions {
		if n == 0 {
			break
		}
		s.Turns = s.Turns[:min(n, len(s.Turns))]
		n -= len(s.Turns)
		out.Sessions = append(out.Sessions, s)
	}
	return out
}

// CapOutput returns the workload with no answer longer than n tokens.
func (t Text) CapOutput(n int) Text {
	out := Text{Name: t.Name, Sessions: make([]Session, len(t.Sessions))}
	for i, s := range t.Sessions {
		turns := make([]Turn, len(s.Turns))
		for j, turn := range s.Turns {
			turn.OutputTokens = min(turn.OutputTokens, n)
			turns[j] = turn
		}
		s.Turns = turns
		out.Sessions[i] = s
	}
	return out
}

// Validate names the first turn that cannot be sent.
func (t Text) Validate() error {
	for _, s := range t.Sessions {
		if len(s.Turns) == 0 {
			return fmt.Errorf("session %s: it has no requests", s.ID)
		}
		for i, turn := range s.Turns {
			switch {
			case len(turn.Messages) == 0:
				return fmt.Errorf("session %s, request %d: it has no messages", s.ID, i+1)
			case turn.OutputTokens < 1:
				return fmt.Errorf("session %s, request %d: output tokens must be at least 1, are %d", s.ID, i+1, turn.OutputTokens)
			case turn.Think < 0 || turn.Gap < 0:
				return fmt.Errorf("session %s, request %d: waits must not be negative", s.ID, i+1)
			}
		}
	}
	return nil
}

// Conversation joins the turns of one session, and the answers it got, into whole
// prompts. The zero value is an empty conversation.
type Conversation struct {
	messages []Message
}

// Ask returns the messages of the next request. They are the conversation's own
// and must not be changed.
func (c *Conversation) Ask(t Turn) []Message {
	if t.Whole {
		c.messages = nil
	}
	c.messages = append(c.messages, t.Messages...)
	return c.messages
}

// Answer adds the answer to the last request; an empty one adds nothing.
func (c *Conversation) Answer(text string) {
	if text != "" {
		c.messages = append(c.messages, Message{Role: RoleAssistant, Content: text})
	}
}
