package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// plan is a generation request of any dialect, rendered and checked.
type plan struct {
	id        string
	model     string
	salt      string
	prompts   [][]enginesim.Token
	n         int // answers to each prompt
	maxTokens int // 0: not stated
	stream    bool
	skipCache bool // the cache is written, not read
	pool      bool // nothing is generated
	seed      uint64
	rank      int // data-parallel engine, or -1
}

// generation is a plan in the engines.
type generation struct {
	id         string
	created    int64
	model      string
	stream     bool
	choices    []*choice
	promptLens []int
	notify     chan struct{}

	// Guarded by the fleet's mu.
	emitted     bool
	firstCached int // of the first choice to emit
	lastCached  int // of the last choice to finish of the last prompt
}

// choice is one answer in the making.
type choice struct {
	gen     *generation
	index   int
	prompt  int // which of the prompts it answers
	engine  int
	pieces  []string
	request enginesim.Request

	// Guarded by the fleet's mu.
	seq      *enginesim.Sequence
	on       *enginesim.Engine // which may be of an earlier life
	tokens   int
	finished bool
}

// finish returns the reason the answer ends with.
func (c *choice) finish() string { return c.request.Finish.String() }

// text returns the answer from token a up to token b.
func (c *choice) text(a, b int) string { return enginesim.JoinOutput(c.pieces[a:b]) }

func (g *generation) signal() {
	select {
	case g.notify <- struct{}{}:
	default:
	}
}

// promptTokens returns the tokens of all prompts, each counted once.
func (g *generation) promptTokens() int {
	sum := 0
	for _, n := range g.promptLens {
		sum += n
	}
	return sum
}

// completionTokens returns the tokens of all whole answers.
func (g *generation) completionTokens() int {
	sum := 0
	for _, c := range g.choices {
		sum += len(c.pieces)
	}
	return sum
}

// start turns a plan into sequences and submits them, for a request whose context is
// [during] a life.
func (s *Server) start(ctx context.Context, p *plan) (*generation, *apiError) {
	limit := s.maxTokens
	output := p.maxTokens
	finish := enginesim.FinishLength
	if output == 0 && !p.pool {
		output, finish = s.cfg.OutputTokens, enginesim.FinishStop
	}
	gen := &generation{
		id:      p.id,
		created: time.Now().Unix(),
		model:   p.model,
		stream:  p.stream,
		notify:  make(chan struct{}, 1),
	}
	root := enginesim.Root(p.model, p.salt)
	for i, tokens := range p.prompts {
		if len(tokens) == 0 {
			return nil, badRequest("The decoder prompt cannot be empty", "prompt")
		}
		want := output
		if p.maxTokens == 0 {
			want = min(want, limit-len(tokens))
		}
		if len(tokens)+want > limit || (want < 1 && !p.pool) {
			return nil, contextOverflow(limit, len(tokens), max(want, 1))
		}
		gen.promptLens = append(gen.promptLens, len(tokens))
		blocks := enginesim.Chain(nil, root, tokens, s.blockSize)
		seed := enginesim.HashTokens(root, tokens) ^ s.cfg.Seed ^ p.seed
		for child := range p.n {
			c := &choice{gen: gen, index: len(gen.choices), prompt: i}
			c.pieces = enginesim.Output(seed+uint64(child), want)
			c.request = enginesim.Request{
				PromptTokens:  len(tokens),
				OutputTokens:  want,
				Blocks:        s.outputBlocks(root, blocks, tokens, c.pieces),
				Finish:        finish,
				SkipCacheRead: p.skipCache,
			}
			gen.choices = append(gen.choices, c)
		}
	}
	if err := s.fleet.submit(ctx, gen, p.rank); err != nil {
		if errors.Is(err, errStopped) {
			return nil, &apiError{status: http.StatusServiceUnavailable, kind: "ServiceUnavailableError", message: err.Error()}
		}
		return nil, badRequest(err.Error(), "")
	}
	return gen, nil
}

// outputBlocks continues the block ids of a prompt over its answer.
func (s *Server) outputBlocks(
	root enginesim.BlockID, prompt []enginesim.BlockID, tokens []enginesim.Token, pieces []string,
) []enginesim.BlockID {
	parent := root
	if len(prompt) > 0 {
		parent = prompt[len(prompt)-1]
	}
	tail := append([]enginesim.Token(nil), tokens[len(prompt)*s.blockSize:]...)
	tail = enginesim.OutputTokens(tail, pieces)
	return enginesim.Chain(append([]enginesim.BlockID(nil), prompt...), parent, tail, s.blockSize)
}

// wait blocks until something happened to a generation. The error is not nil
// when the client left or the server stops, and then the generation is aborted.
func (s *Server) wait(ctx context.Context, gen *generation) error {
	select {
	case <-gen.notify:
		return nil
	case <-ctx.Done():
		s.fleet.abort(gen)
		return ctx.Err()
	case <-s.fleet.done:
		s.fleet.abort(gen)
		return errStopped
	}
}

// progress is how far each choice has come.
type progress struct {
	tokens   []int
	finished []bool
	all      bool
	cached   int
}

// progress returns a generation's state, in slices that it reuses.
func (s *Server) progress(gen *generation, p *progress) {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	p.tokens, p.finished, p.all = p.tokens[:0], p.finished[:0], true
	for _, c := range gen.choices {
		p.tokens = append(p.tokens, c.tokens)
		p.finished = append(p.finished, c.finished)
		p.all = p.all && c.finished
	}
	p.cached = gen.lastCached
	if gen.stream {
		p.cached = gen.firstCached
	}
}

// answer generates what is planned and answers with it: event by event, or whole, given
// the prompt tokens that were cached.
func (s *Server) answer(
	w http.ResponseWriter, r *http.Request, p *plan,
	stream func(*eventStream, *generation), whole func(gen *generation, cached int) any,
) *apiError {
	gen, err := s.start(r.Context(), p)
	if err != nil {
		return err
	}
	if p.stream {
		stream(s.openStream(w, r), gen)
		return nil
	}
	cached, waitErr := s.finishAll(r.Context(), gen)
	if waitErr != nil {
		return ended(waitErr)
	}
	writeJSON(w, http.StatusOK, whole(gen, cached))
	return nil
}

// finishAll waits for all answers of a generation and returns the cached tokens
// that its usage reports.
func (s *Server) finishAll(ctx context.Context, gen *generation) (cached int, err error) {
	var p progress
	for {
		if err := s.wait(ctx, gen); err != nil {
			return 0, err
		}
		if s.progress(gen, &p); p.all {
			return p.cached, nil
		}
	}
}

// follow calls emit for each run of new tokens of each choice until all have
// ended. An error of emit aborts the generation.
func (s *Server) follow(
	ctx context.Context, gen *generation, emit func(c *choice, from, to int, last bool) error,
) (cached int, err error) {
	var p progress
	sent := make([]int, len(gen.choices))
	for {
		if err := s.wait(ctx, gen); err != nil {
			return 0, err
		}
		s.progress(gen, &p)
		for i, c := range gen.choices {
			if p.tokens[i] == sent[i] {
				continue
			}
			if err := emit(c, sent[i], p.tokens[i], p.finished[i]); err != nil {
				s.fleet.abort(gen)
				return 0, err
			}
			sent[i] = p.tokens[i]
		}
		if p.all {
			return p.cached, nil
		}
	}
}

// rankOf returns the data-parallel engine that a request asks for, or -1.
func (s *Server) rankOf(r *http.Request) (int, *apiError) {
	rank, err := strconv.Atoi(r.Header.Get("X-data-parallel-rank"))
	if err != nil {
		return -1, nil
	}
	if rank < 0 || rank >= s.cfg.Engines {
		return 0, badRequest("data_parallel_rank "+strconv.Itoa(rank)+" is out of range [0, "+
			strconv.Itoa(s.cfg.Engines)+").", "")
	}
	return rank, nil
}
