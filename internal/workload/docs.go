package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// DocsConfig describes the workload "docs": questions about long shared documents.
type DocsConfig struct {
	// Documents is how many there are, DocumentTokens how long each is, Zipf the
	// exponent of their popularity.
	Documents, DocumentTokens int
	Zipf                      float64
	// QuestionMean and QuestionSpread are the mean and standard deviation of the
	// question's length, in tokens; it is at least 20.
	QuestionMean, QuestionSpread float64
	// OutputMean is the mean of the answer's length, in tokens, which is exponential.
	OutputMean float64
	// Rate is how many requests a second arrive, at uniformly random moments, for
	// Duration.
	Rate     float64
	Duration time.Duration
	// Users, when not 0, closes the loop: that many users ask one question after the
	// other, until Duration. One who got no answer pauses a second.
	Users int
	// Load multiplies Rate, or Users. 0 is 1.
	Load float64
}

// DefaultDocsConfig is 1,400 documents of 8,000 tokens and 3.5 requests a second for an
// hour.
func DefaultDocsConfig() DocsConfig {
	return DocsConfig{
		Documents: 1400, DocumentTokens: 8000, Zipf: 0.6,
		QuestionMean: 100, QuestionSpread: 25, OutputMean: 250,
		Rate: 3.5, Duration: time.Hour,
	}
}

// minQuestion is the shortest question in tokens.
const minQuestion = 20

// Validate names the first field that makes no sense.
func (c DocsConfig) Validate() error {
	arrivals := checkUsers(c.Users, c.Load)
	if c.Users == 0 {
		arrivals = checkArrivals(c.Rate, c.Duration, c.Load)
	}
	return firstWrong(
		KindDocs,
		within("documents", c.Documents, 1, maxGenerated),
		within("document_tokens", c.DocumentTokens, 1, maxTokens),
		within("zipf", c.Zipf, 0, 10),
		within("question_mean", c.QuestionMean, 0, maxTokens),
		within("question_spread", c.QuestionSpread, 0, maxTokens),
		within("output_mean", c.OutputMean, 0, maxTokens),
		arrivals,
		within("duration", c.Duration, 1, maxSpan),
	)
}

// Workload returns the workload, to be played.
func (c DocsConfig) Workload() (*Workload, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Workload{Name: KindDocs, Requests: c.arrivals(), Ends: c.Duration, Play: func(seed uint64) Source { return NewDocs(c, seed) }}, nil
}

// arrivals is how many requests come by themselves, 0 where users wait for answers.
func (c DocsConfig) arrivals() int {
	if c.Users > 0 {
		return 0
	}
	return int(c.Rate * loadFactor(c.Load) * c.Duration.Seconds())
}

// docsPause is how long a user waits who got no answer. Without it, one who is refused at
// once would ask again and again at the same moment.
const docsPause = time.Second

// Docs is the workload "docs". It implements [Source].
type Docs struct {
	config   DocsConfig
	weights  []float64 // cumulated popularity
	name     uint64    // of the documents
	arrivals []time.Duration
	open     docsUser   // who makes the requests that arrive by themselves
	users    []docsUser // of the closed loop
	begun    int        // arrivals, or users, that have asked
}

// docsUser draws questions. Each has a generator of its own, so that what a user asks does
// not depend on when others get their answers.
type docsUser struct {
	rng   *rand.Rand
	name  uint64 // of the questions
	asked int
}

// NewDocs returns the workload. The configuration must be valid.
func NewDocs(c DocsConfig, seed uint64) *Docs {
	const scope = 0x646f6373
	d := &Docs{config: c, name: Mix(seed ^ scope)}
	total := 0.0
	for rank := range c.Documents {
		total += math.Pow(float64(rank+1), -c.Zipf)
		d.weights = append(d.weights, total)
	}
	if c.Users > 0 {
		d.users = make([]docsUser, loadedUsers(c.Users, c.Load))
		for i := range d.users {
			name := nameOf(d.name, ^uint64(i)) //nolint:gosec // a count
			d.users[i] = docsUser{rng: rand.New(rand.NewPCG(seed, name)), name: name}
		}
		return d
	}
	d.open = docsUser{rng: rand.New(rand.NewPCG(seed, scope)), name: d.name}
	d.arrivals = make([]time.Duration, c.arrivals())
	for i := range d.arrivals {
		d.arrivals[i] = time.Duration(d.open.rng.Float64() * float64(c.Duration))
	}
	slices.Sort(d.arrivals)
	return d
}

// Next implements [Source].
func (d *Docs) Next() (Request, bool) {
	number := d.begun
	if number == len(d.arrivals)+len(d.users) { // one of the two is empty
		return Request{}, false
	}
	d.begun++
	if d.config.Users > 0 {
		return d.askAs(number, 0), true
	}
	return d.ask(&d.open, d.arrivals[number]), true
}

// Ended implements [Source]. A user asks on, after a pause where there was no answer.
func (d *Docs) Ended(r *Request, at time.Duration, answered bool) (Request, bool) {
	if d.config.Users == 0 {
		return Request{}, false
	}
	if !answered {
		at += docsPause
	}
	if at >= d.config.Duration {
		return Request{}, false
	}
	return d.askAs(r.Session, at), true
}

// askAs makes the next question of a user of the closed loop, whose session it is.
func (d *Docs) askAs(user int, at time.Duration) Request {
	r := d.ask(&d.users[user], at)
	r.Session = user
	return r
}

// ask makes a question about some document, whose rank is the session.
func (d *Docs) ask(u *docsUser, at time.Duration) Request {
	u.asked++
	pick := u.rng.Float64() * d.weights[len(d.weights)-1]
	rank := min(sort.SearchFloat64s(d.weights, pick), len(d.weights)-1)
	question := max(int(d.config.QuestionMean+d.config.QuestionSpread*u.rng.NormFloat64()), minQuestion)
	return Request{
		At: at,
		Prompt: []Segment{
			{ID: Mix(d.name ^ uint64(rank)), Tokens: d.config.DocumentTokens},
			{ID: Mix(u.name ^ uint64(u.asked)<<32), Tokens: question},
		},
		OutputTokens: max(int(d.config.OutputMean*u.rng.ExpFloat64()), 1),
		Session:      rank,
	}
}
