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
	// other, until Duration.
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
	return &Workload{Name: KindDocs, Requests: c.arrivals(), Play: func(seed uint64) Source { return NewDocs(c, seed) }}, nil
}

// arrivals is how many requests come by themselves, 0 where users wait for answers.
func (c DocsConfig) arrivals() int {
	if c.Users > 0 {
		return 0
	}
	return int(c.Rate * loadFactor(c.Load) * c.Duration.Seconds())
}

// Docs is the workload "docs". It implements [Source].
type Docs struct {
	config   DocsConfig
	rng      *rand.Rand
	weights  []float64 // cumulated popularity
	arrivals []time.Duration
	users    int
	names    uint64
	made     int
}

// NewDocs returns the workload. The configuration must be valid.
func NewDocs(c DocsConfig, seed uint64) *Docs {
	d := &Docs{config: c, rng: rand.New(rand.NewPCG(seed, 0x646f6373)), users: loadedUsers(c.Users, c.Load), names: mix(seed ^ 0x646f6373)}
	total := 0.0
	for rank := range c.Documents {
		total += math.Pow(float64(rank+1), -c.Zipf)
		d.weights = append(d.weights, total)
	}
	d.arrivals = make([]time.Duration, c.arrivals())
	for i := range d.arrivals {
		d.arrivals[i] = time.Duration(d.rng.Float64() * float64(c.Duration))
	}
	slices.Sort(d.arrivals)
	return d
}

// Next implements [Source].
func (d *Docs) Next() (Request, bool) {
	if d.config.Users > 0 {
		if d.made >= d.users {
			return Request{}, false
		}
		return d.ask(0), true
	}
	if d.made == len(d.arrivals) {
		return Request{}, false
	}
	return d.ask(d.arrivals[d.made]), true
}

// Ended implements [Source].
func (d *Docs) Ended(_ *Request, at time.Duration, _ bool) (Request, bool) {
	if d.config.Users == 0 || at >= d.config.Duration {
		return Request{}, false
	}
	return d.ask(at), true
}

// ask makes a question about some document.
func (d *Docs) ask(at time.Duration) Request {
	d.made++
	pick := d.rng.Float64() * d.weights[len(d.weights)-1]
	rank := min(sort.SearchFloat64s(d.weights, pick), len(d.weights)-1)
	question := max(int(d.config.QuestionMean+d.config.QuestionSpread*d.rng.NormFloat64()), minQuestion)
	return Request{
		At: at,
		Prompt: []Segment{
			{ID: mix(d.names ^ uint64(rank)), Tokens: d.config.DocumentTokens},
			{ID: mix(d.names ^ uint64(d.made)<<32), Tokens: question},
		},
		OutputTokens: max(int(d.config.OutputMean*d.rng.ExpFloat64()), 1),
		Session:      rank,
	}
}
