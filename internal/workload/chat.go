package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// ChatConfig describes the workload "chat": conversations in which every prompt holds
// all that was said before.
type ChatConfig struct {
	// Rate is how many requests a second there are in the long run; conversations begin
	// at uniformly random moments of Duration.
	Rate     float64
	Duration time.Duration
	// TurnsMean is the mean number of turns, which is geometric, TurnsMax the most.
	TurnsMean float64
	TurnsMax  int
	// FirstMean, NextMean and AnswerMean are the mean lengths of the first question, of
	// the later ones and of the answers, in tokens; they are lognormal of shape Sigma.
	FirstMean, NextMean, AnswerMean, Sigma float64
	// ThinkMean is the mean pause between an answer and the next question, which is
	// exponential.
	ThinkMean time.Duration
	// PromptMax ends a conversation whose next prompt would be longer, in tokens.
	PromptMax int
	// Load multiplies Rate. 0 is 1.
	Load float64
}

// DefaultChatConfig is 17 requests a second for an hour.
func DefaultChatConfig() ChatConfig {
	return ChatConfig{
		Rate: 17, Duration: time.Hour,
		TurnsMean: 3.3, TurnsMax: 40,
		FirstMean: 250, NextMean: 120, AnswerMean: 250, Sigma: 1,
		ThinkMean: 20 * time.Second, PromptMax: 16_000,
	}
}

// Validate names the first field that makes no sense.
func (c ChatConfig) Validate() error {
	return firstWrong(
		KindChat,
		checkArrivals(c.Rate, c.Duration, c.Load),
		within("turns_mean", c.TurnsMean, 1, 1e6),
		within("turns_max", c.TurnsMax, 1, 1e6),
		within("first_mean", c.FirstMean, 1, maxTokens),
		within("next_mean", c.NextMean, 1, maxTokens),
		within("answer_mean", c.AnswerMean, 1, maxTokens),
		within("sigma", c.Sigma, 0, 10),
		within("think_mean", c.ThinkMean, 0, maxSpan),
		within("prompt_max", c.PromptMax, 1, maxTokens),
	)
}

// Workload returns the workload, to be played.
func (c ChatConfig) Workload() (*Workload, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Workload{Name: KindChat, Play: func(seed uint64) Source { return NewChat(c, seed) }}, nil
}

// Chat is the workload "chat". It implements [Source].
type Chat struct {
	config ChatConfig
	seed   uint64
	starts []time.Duration
	talks  []chatTalk // that have begun
}

// chatTalk is a conversation. Each has a generator of its own, so that what is said in it
// does not depend on when others get their answers.
type chatTalk struct {
	rng   *rand.Rand
	name  uint64 // of the next content
	turns int    // still to come
}

// chatScope tells the generators of this workload from those of others.
const chatScope = 0x63686174

// NewChat returns the workload. The configuration must be valid.
func NewChat(c ChatConfig, seed uint64) *Chat {
	s := &Chat{config: c, seed: seed}
	rng := rand.New(rand.NewPCG(seed, chatScope))
	s.starts = make([]time.Duration, int(c.Rate*loadFactor(c.Load)/c.TurnsMean*c.Duration.Seconds()))
	for i := range s.starts {
		s.starts[i] = time.Duration(rng.Float64() * float64(c.Duration))
	}
	slices.Sort(s.starts)
	return s
}

// Next implements [Source].
func (s *Chat) Next() (Request, bool) {
	session := len(s.talks)
	if session == len(s.starts) {
		return Request{}, false
	}
	name := nameOf(s.seed^chatScope, uint64(session)) //nolint:gosec // a count
	talk := chatTalk{rng: rand.New(rand.NewPCG(s.seed, name)), name: name, turns: 1}
	for talk.turns < s.config.TurnsMax && talk.rng.Float64() > 1/s.config.TurnsMean {
		talk.turns++
	}
	s.talks = append(s.talks, talk)
	return s.turn(s.starts[session], session, nil, s.config.FirstMean), true
}

// Ended implements [Source]. A conversation whose request was not answered ends.
func (s *Chat) Ended(r *Request, at time.Duration, answered bool) (Request, bool) {
	talk := &s.talks[r.Session]
	if !answered || talk.turns == 0 {
		talk.rng = nil // is over
		return Request{}, false
	}
	think := time.Duration(talk.rng.ExpFloat64() * float64(s.config.ThinkMean))
	said := append(slices.Clone(r.Prompt), Segment{ID: r.Answer, Tokens: r.OutputTokens})
	next := s.turn(at+think, r.Session, said, s.config.NextMean)
	return next, Tokens(next.Prompt) <= s.config.PromptMax
}

// turn makes a conversation's next request after what was said before.
func (s *Chat) turn(at time.Duration, session int, said []Segment, mean float64) Request {
	talk := &s.talks[session]
	talk.turns--
	return Request{
		At:           at,
		Prompt:       append(said, Segment{ID: talk.fresh(), Tokens: s.length(talk.rng, mean)}),
		OutputTokens: s.length(talk.rng, s.config.AnswerMean),
		Answer:       talk.fresh(),
		Session:      session,
	}
}

// fresh names new content.
func (t *chatTalk) fresh() uint64 {
	t.name++
	return Mix(t.name)
}

// length draws a length in tokens.
func (s *Chat) length(rng *rand.Rand, mean float64) int {
	mu := math.Log(mean) - s.config.Sigma*s.config.Sigma/2
	return max(int(min(math.Exp(mu+s.config.Sigma*rng.NormFloat64()), maxTokens)), 1)
}
