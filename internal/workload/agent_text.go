package workload

import (
	"cmp"
	"io"
	"time"

	"github.com/zeebo/xxh3"
)

// DefaultAgentTextUsers is how many sessions of an agent trace go on at once unless the
// configuration says otherwise.
const DefaultAgentTextUsers = 8

const (
	// agentTextChunk is the length of text that is like another or not, in bytes.
	agentTextChunk = 256
	// agentTextRamp is how long after one user the next begins, so that a play does not
	// begin with a burst.
	agentTextRamp = 250 * time.Millisecond
)

// AgentTextConfig says how an agent trace is played. The zero value works.
type AgentTextConfig struct {
	// Users is how many sessions go on at once. 0 is [DefaultAgentTextUsers].
	Users int
	// Load multiplies Users. 0 is 1.
	Load float64
}

// Validate names the first field that makes no sense.
func (c AgentTextConfig) Validate() error {
	return firstWrong(KindAgentText, checkUsers(c.Users, c.Load))
}

// ReadAgentText reads what [LoadLMCache] does and keeps of the text which parts of it are
// equal: each message is cut into chunks of 256 bytes from its start. It is played by users
// who take up one session after the other, each a closed loop in which failures change
// nothing. Answers have no name: where one is in a later prompt, it is the text of that
// prompt. Plays do not depend on the seed.
func ReadAgentText(r io.Reader, c AgentTextConfig) (*Workload, error) {
	return Open(KindAgentText, r, Options{Users: c.Users, Load: c.Load})
}

func readAgentText(r io.Reader) (*agentText, error) {
	text, err := LoadLMCache(r)
	if err != nil {
		return nil, err
	}
	trace := &agentText{name: text.Name, requests: text.Requests()}
	for _, s := range text.Sessions {
		trace.sessions = append(trace.sessions, agentSession(s))
	}
	return trace, nil
}

func (t *agentText) workload(c AgentTextConfig) *Workload {
	users := loadedUsers(cmp.Or(c.Users, DefaultAgentTextUsers), c.Load)
	return &Workload{Name: t.name, Requests: t.requests, Play: func(uint64) Source {
		return &agentTextPlay{trace: t, waiting: users}
	}}
}

// agentText is a trace as it is kept. It does not change.
type agentText struct {
	name     string
	requests int
	sessions [][]agentTurn
}

// agentTurn is a [Turn] whose text is known by its chunks.
type agentTurn struct {
	prompt []Segment
	output int // tokens
	gap    time.Duration
}

func agentSession(s Session) []agentTurn {
	turns := make([]agentTurn, 0, len(s.Turns))
	var talk Conversation
	for _, t := range s.Turns {
		turns = append(turns, agentTurn{prompt: chunks(talk.Ask(t)), output: t.OutputTokens, gap: t.Gap})
	}
	return turns
}

// chunks names the content of messages. What a chunk of a message is depends on who speaks.
func chunks(messages []Message) []Segment {
	var out []Segment
	for _, m := range messages {
		role := xxh3.HashString(m.Role)
		for text := m.Content; text != ""; {
			n := min(len(text), agentTextChunk)
			out = append(out, Segment{ID: xxh3.HashStringSeed(text[:n], role), Tokens: reckonTokens(n)})
			text = text[n:]
		}
	}
	if len(out) == 0 { // the engine sees the template at least
		out = append(out, Segment{ID: Mix(0), Tokens: 1})
	}
	return out
}

// agentTextPlay is one play of a trace. It implements [Source].
type agentTextPlay struct {
	trace   *agentText
	users   int   // who have begun
	waiting int   // users who have not
	sent    []int // turns, by session that has begun
}

// Next implements [Source].
func (p *agentTextPlay) Next() (Request, bool) {
	if p.waiting == 0 {
		return Request{}, false
	}
	p.waiting--
	p.users++
	return p.begin(time.Duration(p.users-1) * agentTextRamp)
}

// Ended implements [Source].
func (p *agentTextPlay) Ended(r *Request, at time.Duration, _ bool) (Request, bool) {
	turns, sent := p.trace.sessions[r.Session], p.sent[r.Session]
	if sent == len(turns) {
		return p.begin(at)
	}
	return p.ask(r.Session, max(at, r.At+turns[sent].gap)), true
}

// begin takes up the next session, if any is left.
func (p *agentTextPlay) begin(at time.Duration) (Request, bool) {
	session := len(p.sent)
	if session == len(p.trace.sessions) {
		return Request{}, false
	}
	p.sent = append(p.sent, 0)
	return p.ask(session, at), true
}

// ask makes a session's next request.
func (p *agentTextPlay) ask(session int, at time.Duration) Request {
	turn := &p.trace.sessions[session][p.sent[session]]
	p.sent[session]++
	return Request{At: at, Prompt: turn.prompt, OutputTokens: turn.output, Session: session}
}
