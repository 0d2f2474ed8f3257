package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The shape of the agents workload, in tokens. It makes prompts of 2,000 to 16,000 tokens, about 8,000 on average, of
// which a fleet with one infinite cache would recompute about a sixth.
const (
	agentsBytesPerToken = 3 // code and logs are denser than prose

	agentsHeadMin, agentsHeadMax = 1000, 2200 // system prompt and tools of an application
	agentsTask                   = 900        // median of what a session is about
	agentsTool                   = 1000       // median of what a tool says
	agentsSpread                 = 0.6        // of both, as the sigma of a lognormal
	agentsToolMax                = 4000
	agentsPromptMax              = 15_000 // a session ends before its prompts exceed it
	agentsTurnsMin               = 4
	agentsTurnsMean              = 9
	agentsOutputMin              = 20
	agentsOutputMean             = 60
	agentsThink                  = 7 * time.Second // mean: what the tools take
	agentsThinkMin               = 500 * time.Millisecond
)

// AgentsConfig sizes the agents workload.
type AgentsConfig struct {
	// Seed makes the workload repeatable.
	Seed uint64
	// Requests is how many requests there are in all, at least 1. The last session
	// is cut short.
	Requests int
	// Applications is how many different agents there are, each with a system
	// prompt and tools of its own, at least 1. Early ones have more sessions.
	Applications int
}

// Validate names the field that makes no sense.
func (c AgentsConfig) Validate() error {
	switch {
	case c.Requests < 1:
		return fmt.Errorf("requests: must be at least 1, is %d", c.Requests)
	case c.Applications < 1:
		return fmt.Errorf("applications: must be at least 1, is %d", c.Applications)
	}
	return nil
}

// Agents generates a workload of coding agents at work. A session opens with its
// application's system prompt and tools and a task; then tool results follow, each
// joined to all that was said before, until the task is done. The agent's own words
// are whatever the engine answers.
func Agents(cfg AgentsConfig) (Text, error) {
	if err := cfg.Validate(); err != nil {
		return Text{}, fmt.Errorf("agents workload: %w", err)
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x6167656e7473))
	apps := make([]*application, cfg.Applications)
	for i := range apps {
		apps[i] = newApplication(rng, i)
	}
	t := Text{Name: "generated agent sessions"}
	for left := cfg.Requests; left > 0; {
		u := rng.Float64()
		app := apps[int(math.Pow(u, 1.3)*float64(len(apps)))]
		s := app.session(rng, fmt.Sprintf("agent-%04d", len(t.Sessions)+1))
		s.Turns = s.Turns[:min(len(s.Turns), left)]
		left -= len(s.Turns)
		t.Sessions = append(t.Sessions, s)
	}
	return t, nil
}

// application is one kind of agent.
type application struct {
	words *lexicon
	head  string
}

func newApplication(rng *rand.Rand, nth int) *application {
	w := &writer{rng: rng, lexicon: newLexicon(rng)}
	size := agentsBytesPerToken * (agentsHeadMin + rng.IntN(agentsHeadMax-agentsHeadMin+1))
	w.put("You are agent %d of the %s project. You change its code by calling tools, one at a time.\n\n# Rules\n\n", nth+1, w.noun())
	w.fill(size/2, w.sentence)
	w.put("\n\n# Tools\n\n")
	w.fill(size/2, w.tool)
	return &application{words: w.lexicon, head: w.String()}
}

// session generates one session of the application.
func (a *application) session(rng *rand.Rand, id string) Session {
	w := &writer{rng: rng, lexicon: a.words}
	w.fill(agentsBytesPerToken*lognormal(rng, agentsTask), w.sentence)
	first := Turn{
		Messages: []Message{
			{Role: RoleSystem, Content: a.head},
			{Role: RoleUser, Content: "Task " + id + ". " + w.String()},
		},
	}
	s := Session{ID: id}
	prompt := w.Len() / agentsBytesPerToken
	turns := agentsTurnsMin + int(rng.ExpFloat64()*(agentsTurnsMean-agentsTurnsMin))
	for turn := first; ; turn = (Turn{Messages: []Message{{Role: RoleUser, Content: a.result(rng)}}}) {
		turn.OutputTokens = agentsOutputMin + int(rng.ExpFloat64()*(agentsOutputMean-agentsOutputMin))
		turn.Think = agentsThinkMin + time.Duration(rng.ExpFloat64()*float64(agentsThink-agentsThinkMin))
		prompt += turn.OutputTokens + len(turn.Messages[0].Content)/agentsBytesPerToken
		if len(s.Turns) > 0 && (len(s.Turns) >= turns || prompt > agentsPromptMax) {
			return s
		}
		s.Turns = append(s.Turns, turn)
	}
}

// result writes what a tool says.
func (a *application) result(rng *rand.Rand) string {
	w := &writer{rng: rng, lexicon: a.words}
	size := agentsBytesPerToken * min(lognormal(rng, agentsTool), agentsToolMax)
	switch rng.IntN(4) {
	case 0:
		w.put("$ cat %s\n", w.path())
		w.fill(size, w.function)
	case 1:
		w.put("$ go test ./%s/...\n", w.noun())
		w.fill(size, w.testLine)
	case 2:
		w.put("$ tail %s.log\n", w.noun())
		w.fill(size, w.logLine)
	default:
		w.put("$ grep -rn %s\n", w.method())
		w.fill(size, w.grepLine)
	}
	return w.String()
}

// lognormal draws a length with the given median, at least 1.
func lognormal(rng *rand.Rand, median float64) int {
	return max(1, int(median*math.Exp(agentsSpread*rng.NormFloat64())))
}
