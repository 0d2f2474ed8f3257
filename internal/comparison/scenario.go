package comparison

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// scrapeEvery is how often the router reads the engines' metrics, as it does by default.
const scrapeEvery = 5 * time.Second

// The bounds of a fleet keep a run within a few gigabytes.
const (
	maxBackends = 256
	maxRouters  = 64
	// maxFleetBlocks are KV blocks of all engines together, of which each takes about
	// 100 bytes when it is in use. 256 engines of the reference profile have fewer.
	maxFleetBlocks = 1 << 25
)

// scenario is everything that a run depends on but the strategy.
type scenario struct {
	asked         asked
	engine        engine
	backends      int
	routers       int
	shareDelay    time.Duration
	stateCapacity float64
	noise         string
	seed          uint64
	routing       config.Routing
	settings      []string // of routing, as --set gave them
	faults        []replay.Fault
}

func defaultScenario() scenario {
	return scenario{
		asked: asked{
			load: 1, docs: workload.DefaultDocsConfig(), chat: workload.DefaultChatConfig(), head: workload.DefaultHeadConfig(),
		},
		engine: engine{profile: referenceProfile}, backends: 7, routers: 1, shareDelay: 50 * time.Millisecond, stateCapacity: 1, seed: 1,
		routing: config.DefaultPool().Routing,
	}
}

// register makes the scenario's parameters flags of a command, with what they are now as
// their defaults. A sweep may go over any of them.
func (s *scenario) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&s.asked.load, "load", s.asked.load, "multiply the load by `X`: the rate, the users, or how fast recorded requests follow each other")
	f.IntVar(&s.backends, "backends", s.backends, "engines")
	f.StringVar(&s.engine.profile, "profile", s.engine.profile, "timing of the engines, a `NAME`: "+profileNames())
	f.IntVar(&s.engine.kvTokens, "kv-tokens", s.engine.kvTokens, "KV cache of each engine in tokens (0: the profile's)")
	f.IntVar(&s.engine.blockSize, "block-size", s.engine.blockSize, "tokens in a KV block (0: 16)")
	f.Float64Var(&s.engine.prefillRate, "prefill-rate", s.engine.prefillRate, "prompt tokens that an engine computes in a second, whatever their context (0: the profile's)")
	f.DurationVar(&s.engine.overhead, "request-overhead", s.engine.overhead, "what every request takes beside the model (0: the profile's)")
	f.IntVar(&s.engine.maxSeqs, "max-num-seqs", s.engine.maxSeqs, "sequences in the running batch (0: the profile's)")
	f.IntVar(&s.engine.maxBatchedTokens, "max-num-batched-tokens", s.engine.maxBatchedTokens, "tokens computed in a step (0: the profile's)")
	f.IntVar(&s.routers, "routers", s.routers, "routers that the requests are spread over")
	f.DurationVar(&s.shareDelay, "share-delay", s.shareDelay, "after how long what one of several routers knows is known to the others (0: they share nothing)")
	f.Float64Var(&s.stateCapacity, "state-capacity", s.stateCapacity, "KV cache that engines say they have, relative to the truth; 0: they do not say")
	f.StringVar(&s.noise, "noise", s.noise, "what goes wrong all the time: `default`, or KEY=VALUE by commas of "+strings.Join(noiseKeys(), ", "))
	f.Uint64Var(&s.seed, "seed", s.seed, "seed of all that is random")
	s.asked.register(cmd)
}

// register makes the parameters of the workloads flags.
func (a *asked) register(cmd *cobra.Command) {
	f := cmd.Flags()
	a.flags = make(map[string]string)
	own := func(kind, field string) string {
		name := flagOf(kind, field)
		a.flags[name] = kind
		return name
	}
	d := &a.docs
	f.IntVar(&d.Documents, own(workload.KindDocs, "documents"), d.Documents, "docs: documents")
	f.IntVar(&d.DocumentTokens, own(workload.KindDocs, "document-tokens"), d.DocumentTokens, "docs: tokens of each")
	f.Float64Var(&d.Zipf, own(workload.KindDocs, "zipf"), d.Zipf, "docs: exponent of their popularity")
	f.Float64Var(&d.QuestionMean, own(workload.KindDocs, "question-mean"), d.QuestionMean, "docs: mean tokens of a question")
	f.Float64Var(&d.QuestionSpread, own(workload.KindDocs, "question-spread"), d.QuestionSpread, "docs: standard deviation of that")
	f.Float64Var(&d.OutputMean, own(workload.KindDocs, "output-mean"), d.OutputMean, "docs: mean tokens of an answer")
	f.Float64Var(&d.Rate, own(workload.KindDocs, "rate"), d.Rate, "docs: requests a second")
	f.DurationVar(&d.Duration, own(workload.KindDocs, "duration"), d.Duration, "docs: for how long")
	f.IntVar(&d.Users, own(workload.KindDocs, "users"), d.Users, "docs: users who ask one question after the other, instead of a rate")
	c := &a.chat
	f.Float64Var(&c.Rate, own(workload.KindChat, "rate"), c.Rate, "chat: requests a second in the long run")
	f.DurationVar(&c.Duration, own(workload.KindChat, "duration"), c.Duration, "chat: for how long conversations begin")
	f.Float64Var(&c.TurnsMean, own(workload.KindChat, "turns-mean"), c.TurnsMean, "chat: mean turns of a conversation")
	f.IntVar(&c.TurnsMax, own(workload.KindChat, "turns-max"), c.TurnsMax, "chat: turns at most")
	f.Float64Var(&c.FirstMean, own(workload.KindChat, "first-mean"), c.FirstMean, "chat: mean tokens of a first question")
	f.Float64Var(&c.NextMean, own(workload.KindChat, "next-mean"), c.NextMean, "chat: mean tokens of a later question")
	f.Float64Var(&c.AnswerMean, own(workload.KindChat, "answer-mean"), c.AnswerMean, "chat: mean tokens of an answer")
	f.Float64Var(&c.Sigma, own(workload.KindChat, "sigma"), c.Sigma, "chat: shape of these lognormal lengths")
	f.DurationVar(&c.ThinkMean, own(workload.KindChat, "think-mean"), c.ThinkMean, "chat: mean pause before the next question")
	f.IntVar(&c.PromptMax, own(workload.KindChat, "prompt-max"), c.PromptMax, "chat: tokens of a prompt at most")
	h := &a.head
	f.IntVar(&h.HeadTokens, own(workload.KindHead, "head-tokens"), h.HeadTokens, "head: tokens that all prompts begin with")
	f.IntVar(&h.OwnTokens, own(workload.KindHead, "own-tokens"), h.OwnTokens, "head: tokens of each prompt's own")
	f.IntVar(&h.OutputTokens, own(workload.KindHead, "output-tokens"), h.OutputTokens, "head: tokens of an answer")
	f.Float64Var(&h.Rate, own(workload.KindHead, "rate"), h.Rate, "head: requests a second")
	f.DurationVar(&h.Duration, own(workload.KindHead, "duration"), h.Duration, "head: for how long")
	o := &a.options
	f.DurationVar(&o.Window, own(workload.KindWeka, "window"), o.Window, "weka: time over which sessions begin (0: an hour)")
	f.IntVar(&o.Users, own(workload.KindAgentText, "users"), o.Users, fmt.Sprintf("agent-text: sessions at a time (0: %d)", workload.DefaultAgentTextUsers))
	f.StringSliceVar(&o.Pools, own(workload.KindRequestLog, "pool"), o.Pools, "request-log: only requests of the pool `NAME` (repeat for more)")
}

// set gives a routing setting a value that makes sense in a replay.
func (s *scenario) set(key, value string) error {
	if key == "strategy" {
		return errors.New("strategy: --strategy names what is compared")
	}
	if err := s.routing.Set(key, value); err != nil {
		return err
	}
	switch {
	case s.routing.OnSaturation == router.Queue:
		return fmt.Errorf("on_saturation: requests of a replay do not wait for a slot: compare %s with %s", router.LeastLoaded, router.Reject)
	case s.routing.PromptCacheKey != router.CacheKeyHint:
		return errors.New("prompt_cache_key: requests of a replay have none")
	case s.routing.NativeKey != router.NativeAuto:
		return errors.New("native_key: requests of a replay have no bodies")
	}
	return s.routing.Router().Validate()
}

// with is the scenario with another value of a routing setting or of a flag.
func (s scenario) with(key, value string) (scenario, error) {
	if slices.Contains(config.RoutingKeys(), key) {
		err := s.set(key, value) // before s is copied
		return s, err
	}
	flags := &cobra.Command{}
	flags.SetOut(io.Discard)
	s.register(flags)
	name := strings.ReplaceAll(key, "_", "-")
	if flags.Flags().Lookup(name) == nil {
		return s, fmt.Errorf("%q is neither a routing setting (%s) nor a flag of the workload or the fleet", key, strings.Join(config.RoutingKeys(), ", "))
	}
	if err := flags.Flags().Set(name, value); err != nil {
		return s, fmt.Errorf("%s: %q is no value of --%s", key, value, name)
	}
	if _, ok := s.asked.flags[name]; ok {
		s.asked.given = append(slices.Clip(s.asked.given), name)
	}
	return s, nil
}

// fleet is whom the workload is asked of, without a strategy. Errors name flags.
func (s *scenario) fleet() (replay.Config, error) {
	if s.backends > maxBackends {
		return replay.Config{}, fmt.Errorf("--backends: %d are more than %d", s.backends, maxBackends)
	}
	if s.routers < 1 || s.routers > maxRouters {
		return replay.Config{}, fmt.Errorf("--routers: %d is not in 1..%d", s.routers, maxRouters)
	}
	engine, err := s.engine.config()
	if err != nil {
		return replay.Config{}, err
	}
	noise, err := parseNoise(s.noise)
	if err != nil {
		return replay.Config{}, err
	}
	fleet := replay.Config{
		Backends: s.backends, Engine: engine, Router: s.routing.Router(),
		Routers: s.routers, ShareDelay: s.shareDelay, ScrapeEvery: scrapeEvery, StatedCapacity: s.stateCapacity,
		Noise: noise, Faults: s.faults, Seed: s.seed,
	}
	if err := errors.Join(nameFlags(engine.Validate()), nameFlags(fleet.Validate())); err != nil {
		return replay.Config{}, err
	}
	if blocks := s.backends * (engine.KVTokens / engine.BlockSize); blocks > maxFleetBlocks {
		return replay.Config{}, fmt.Errorf("--kv-tokens: %d backends of %d tokens in blocks of %d are %d blocks, more than %d, which fill gigabytes: lower --kv-tokens or --backends, or raise --block-size",
			s.backends, engine.KVTokens, engine.BlockSize, blocks, maxFleetBlocks)
	}
	return fleet, nil
}

// nameFlags gives the fields that errors name first the names of their flags.
func nameFlags(err error) error {
	var all []error
	for _, one := range config.Each(err) {
		field, rest, _ := strings.Cut(one.Error(), ":")
		all = append(all, errors.New(flagOfField(field)+":"+rest))
	}
	return errors.Join(all...)
}

// under names a flag in front of each of the errors that one joins, since each is a line of
// its own on the terminal.
func under(flag string, err error) error {
	var all []error
	for _, one := range config.Each(err) {
		all = append(all, fmt.Errorf("%s: %w", flag, one))
	}
	return errors.Join(all...)
}

// flagOfField is the flag behind a field of an engine's or a fleet's configuration.
func flagOfField(field string) string {
	switch field = strings.TrimPrefix(field, "profile."); {
	case field == "stated_capacity":
		return "--state-capacity"
	case field == "max_seqs" || field == "max_batched_tokens":
		return "--max-num-" + strings.ReplaceAll(strings.TrimPrefix(field, "max_"), "_", "-")
	case strings.HasPrefix(field, "faults["):
		return "--fault"
	case strings.HasPrefix(field, "noise."):
		return "--noise: " + strings.TrimPrefix(field, "noise.")
	}
	return "--" + strings.ReplaceAll(field, "_", "-")
}
