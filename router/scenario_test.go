package router

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/kvindex"
)

// TestScenarios runs testdata/scenarios/*.txt: commands and what the router says to
// them, for readers who know the field and need not know Go. testdata/README.md
// describes the commands. `go test ./router -run Scenarios -rewrite` writes the
// answers anew; commit a rewrite only if you can explain every line of it.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{now: time.Unix(1_000_000, 0), decisions: make(map[string]*Decision)}
		datadriven.RunTest(t, path, s.run)
	})
}

type scenario struct {
	router    *Router
	pool      *Pool
	now       time.Time
	random    uint64
	decisions map[string]*Decision
	events    []string // what the hooks were told since the last answer
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "pool":
		return s.makePool(d)
	case "config":
		c := s.pool.Config()
		if err := configure(&c, d); err != nil {
			return "error: " + err.Error()
		}
		if err := s.pool.SetConfig(c); err != nil {
			return "error: " + err.Error()
		}
		return "ok"
	case "holds":
		m := s.member(t, d.CmdArgs[0].Key)
		keys := adapterKeys(arg(d, "prompt", ""), arg(d, "adapter", ""))
		s.pool.index.Record(m.holder, keys, kvindex.Stamp(s.now.UnixNano()), kvindex.Observed)
		return fmt.Sprintf("%d blocks", s.pool.index.Stats(m.holder).Blocks)
	case "busy":
		return s.busy(t, d)
	case "queue":
		m := s.member(t, d.CmdArgs[0].Key)
		m.queue.Push(number(t, d, "tokens", 0), true, s.now)
		return fmt.Sprintf("%d tokens queued", m.queue.Tokens(s.now))
	case "lists":
		return s.lists(t, d)
	case "route":
		return s.route(t, d)
	case "first-token":
		s.router.FirstToken(s.decisions[d.CmdArgs[0].Key], s.now)
		return s.state()
	case "complete":
		return s.complete(t, d)
	case "answer":
		return s.answer(t, d)
	case "advance":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(pause)
		return "ok"
	case "drain", "unreachable", "fail", "cool":
		return s.health(t, d)
	case "scrape":
		return s.scrape(t, d)
	case "bound":
		return fmt.Sprintf("%d blocks", s.pool.index.Stats(s.member(t, d.CmdArgs[0].Key).holder).Capacity)
	case "state":
		return s.state()
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func (s *scenario) makePool(d *datadriven.TestData) string {
	s.router = New(Options{Epoch: s.now, Hooks: s.hooks(d.HasArg("accounts"))})
	spec := PoolSpec{Name: "pool", Config: DefaultConfig(), Ejection: backends.DefaultEjection()}
	if err := configure(&spec.Config, d); err != nil {
		return "error: " + err.Error()
	}
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		b := backends.Spec{URL: "http://" + fields[0] + ":80", Rank: backends.NoRank}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			n, _ := strconv.ParseFloat(value, 64)
			switch key {
			case "weight":
				b.Weight = n
			case "threshold":
				b.ConcurrencyThreshold = int(n)
			}
		}
		spec.Backends = append(spec.Backends, b)
	}
	p, err := s.router.AddPool(spec)
	if err != nil {
		return "error: " + err.Error()
	}
	s.pool = p
	return fmt.Sprintf("%d backends", len(p.Backends()))
}

// configure applies key=value arguments in the words of the configuration file.
func configure(c *Config, d *datadriven.TestData) error {
	for _, a := range d.CmdArgs {
		value := strings.Join(a.Vals, ",")
		n, _ := strconv.ParseFloat(value, 64)
		switch a.Key {
		case "strategy":
			c.Strategy = value
		case "prefix_length":
			c.PrefixLength = int(n)
		case "concurrency_threshold":
			c.ConcurrencyThreshold = int(n)
		case "min_match_ratio":
			c.MinMatchRatio = n
		case "load_factor":
			c.LoadFactor = n
		case "queue_guard":
			c.QueueGuard = n
		case "w":
			c.W = n
		case "on_saturation":
			c.OnSaturation = OnSaturation(value)
		case "replicas":
			c.Replicas = int(n)
		case "accounts":
		default:
			return fmt.Errorf("unknown setting %q", a.Key)
		}
	}
	return nil
}

func arg(d *datadriven.TestData, key, fallback string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, ",")
		}
	}
	return fallback
}

func number(t *testing.T, d *datadriven.TestData, key string, fallback int) int {
	t.Helper()
	text := arg(d, key, "")
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *scenario) member(t *testing.T, name string) *member {
	t.Helper()
	for _, m := range *s.pool.members.Load() {
		if m.backend.ID == name+":80" {
			return m
		}
	}
	t.Fatalf("no backend %q", name)
	return nil
}

// promptKeys are the keys of a prompt written as name:blocks+name:blocks.
func promptKeys(text string) []kvindex.Key { return adapterKeys(text, "") }

// adapterKeys are the keys of a prompt for a LoRA adapter; empty for the model itself.
func adapterKeys(text, adapter string) []kvindex.Key {
	var stream []byte
	for part := range strings.SplitSeq(text, "+") {
		name, count, _ := strings.Cut(part, ":")
		n, _ := strconv.Atoi(count)
		for i := range n {
			block := make([]byte, kvindex.DefaultBlockBytes)
			copy(block, fmt.Sprintf("%s %d", name, i))
			stream = append(stream, block...)
		}
	}
	return kvindex.AppendKeys(nil, kvindex.Scope{Model: adapter}.Seed(), stream, kvindex.DefaultBlockBytes)
}

func (s *scenario) busy(t *testing.T, d *datadriven.TestData) string {
	m := s.member(t, d.CmdArgs[0].Key)
	for range number(t, d, "n", 1) {
		m.backend.Acquire(new(backends.Slot), 1, backends.Unbounded)
	}
	return fmt.Sprintf("%d in flight", m.backend.InFlight())
}

func (s *scenario) request(t *testing.T, d *datadriven.TestData) *Request {
	keys := adapterKeys(arg(d, "prompt", ""), arg(d, "adapter", ""))
	bytes := number(t, d, "bytes", len(keys)*kvindex.DefaultBlockBytes)
	s.random++
	req := &Request{
		Now: s.now, Random: s.random, Pool: s.pool, Model: arg(d, "adapter", "m"), Adapter: d.HasArg("adapter"),
		Blocks: keys, StreamBytes: bytes, HashedBytes: bytes,
		N: number(t, d, "n", 1), Streamed: arg(d, "streamed", "yes") == "yes",
	}
	if len(keys) > 0 {
		req.Prefix = keys[len(keys)-1]
	}
	req.Rendezvous, req.HasPrefix = kvindex.RendezvousKey(keys, kvindex.DefaultBlockBytes, "")
	for name := range strings.SplitSeq(arg(d, "tried", ""), ",") {
		if name != "" {
			req.Tried = append(req.Tried, s.member(t, name).backend)
		}
	}
	if pin := arg(d, "pin", ""); pin != "" {
		req.Pin, req.PinRequired = pin+":80", d.HasArg("required")
	}
	return req
}

// lists lets an engine say which models it serves, those with a + before as adapters.
func (s *scenario) lists(t *testing.T, d *datadriven.TestData) string {
	models := []backends.Model{{ID: "m"}}
	for _, a := range d.CmdArgs[1:] {
		name, adapter := strings.CutPrefix(a.Key, "+")
		models = append(models, backends.Model{ID: name, Adapter: adapter})
	}
	s.member(t, d.CmdArgs[0].Key).backend.SetModels(models)
	return fmt.Sprintf("%d models", len(models))
}

func (s *scenario) route(t *testing.T, d *datadriven.TestData) string {
	times := number(t, d, "times", 1)
	spread := make(map[string]int)
	var out strings.Builder
	for range times {
		dec, err := s.router.Route(s.request(t, d))
		var saturated *SaturatedError
		switch {
		case errors.As(err, &saturated):
			return fmt.Sprintf("error: %v (wait: %v)", err, saturated.Wait)
		case err != nil:
			return "error: " + err.Error()
		}
		if name := arg(d, "as", ""); name != "" {
			s.decisions[name] = dec
		}
		name, _, _ := strings.Cut(dec.Backend.ID, ":")
		spread[name+" "+dec.Reason.String()]++
		if times == 1 {
			fmt.Fprintf(&out, "%s %s\n%s", name, dec.Reason, strings.ReplaceAll(dec.Explain(), ":80", ""))
			if d.HasArg("tokens") {
				fmt.Fprintf(&out, "\n%d of %d tokens predicted cached", dec.PredictedCached, dec.PromptTokens)
			}
		}
	}
	if times > 1 {
		for _, m := range *s.pool.members.Load() {
			name, _, _ := strings.Cut(m.backend.ID, ":")
			for _, reason := range Reasons() {
				if n := spread[name+" "+reason.String()]; n > 0 {
					fmt.Fprintf(&out, "%s: %d × %s\n", name, n, reason)
				}
			}
		}
	}
	return out.String()
}

// hooks turn what the router says into lines.
func (s *scenario) hooks(accounts bool) Hooks {
	say := func(format string, args ...any) {
		s.events = append(s.events, strings.ReplaceAll(fmt.Sprintf(format, args...), ":80", ""))
	}
	h := Hooks{
		Judged: func(d *Decision, c feedback.Claim, r feedback.Ruling) {
			say("%s: %d of %d predicted tokens were cached: %s", d.Backend.ID, c.Observed, c.Predicted, r)
		},
		HorizonMoved: func(_ *Pool, b *backends.Backend, cause string, forgotten int) {
			say("%s: the horizon moved (%s), %d blocks forgotten", b.ID, cause, forgotten)
		},
		Hopeless: func(_ *Pool, b *backends.Backend, on bool) { say("%s: never confirms a hit: %v", b.ID, on) },
		Silent:   func(_ *Pool, b *backends.Backend, on bool) { say("%s: reports no cached tokens: %v", b.ID, on) },
	}
	if accounts {
		h.Accounted = func(d *Decision, a feedback.Account) {
			say("%s: prompt %d = delivered %d + no reuse %d + overflow %d + load choice %d + stale index %d + unreported %d",
				d.Backend.ID, a.Prompt, a.Delivered, a.NoReuse, a.Overflow, a.LoadChoice, a.StaleIndex, a.Unreported)
		}
	}
	return h
}

// answer completes a decision with an answer that reports its usage, and prints what
// the router makes of it. Without a name it routes the prompt first.
func (s *scenario) answer(t *testing.T, d *datadriven.TestData) string {
	var dec *Decision
	if d.HasArg("prompt") {
		req := s.request(t, d)
		req.Route, req.NoEvidence, req.Binary = arg(d, "route", "chat"), d.HasArg("no-evidence"), d.HasArg("binary")
		req.AnyRank = d.HasArg("any-rank")
		var err error
		if dec, err = s.router.Route(req); err != nil {
			return "error: " + err.Error()
		}
	} else {
		dec = s.decisions[d.CmdArgs[0].Key]
	}
	s.now = s.now.Add(time.Duration(number(t, d, "ms", 1000)) * time.Millisecond)
	s.router.FirstToken(dec, s.now)
	tokens := number(t, d, "tokens", dec.PromptBlocks*kvindex.DefaultBlockBytes/4)
	o := feedback.Outcome{Now: s.now, Result: feedback.Success, Blame: feedback.Healthy, FirstByte: true, Usage: feedback.Usage{Prompt: tokens, HasPrompt: true}}
	if cached := arg(d, "cached", ""); cached != "" && cached != "null" {
		o.Usage.Cached, o.Usage.HasCached = number(t, d, "cached", 0), true
	}
	s.events = nil
	s.router.Complete(dec, o)
	if len(s.events) == 0 {
		return "nothing to say"
	}
	return strings.Join(s.events, "\n")
}

// scrape gives the router a look at an engine's metrics, a second later.
func (s *scenario) scrape(t *testing.T, d *datadriven.TestData) string {
	s.now = s.now.Add(time.Second)
	state := feedback.EngineState{
		At: s.now, Engine: "vllm",
		CapacityTokens: number(t, d, "capacity", 0), BlockTokens: number(t, d, "block", 0),
		HasSleep: true, Asleep: d.HasArg("asleep"),
		CachingOff: d.HasArg("caching-off"),
		HasHits:    d.HasArg("hits"), Hits: float64(number(t, d, "hits", 0)), Queries: float64(number(t, d, "queries", 0)),
	}
	if names := arg(d, "adapters", ""); names != "" {
		state.Adapters = strings.Split(names, ",")
	}
	state.MaxAdapters = number(t, d, "max-adapters", 0)
	if d.HasArg("unknown") {
		state.Engine = ""
	}
	s.events = nil
	m := s.member(t, d.CmdArgs[0].Key)
	s.router.Scraped(s.pool, m.backend, state)
	if len(s.events) == 0 {
		return m.backend.State(s.now).String()
	}
	return strings.Join(s.events, "\n")
}

func (s *scenario) complete(t *testing.T, d *datadriven.TestData) string {
	o := feedback.Outcome{Now: s.now, FirstByte: d.HasArg("first-byte")}
	name := arg(d, "result", "success")
	for _, r := range feedback.Results() {
		if r.String() == name {
			o.Result = r
		}
	}
	switch arg(d, "blame", "") {
	case "healthy":
		o.Blame = feedback.Healthy
	case "strike":
		o.Blame = feedback.Strike
	case "overloaded":
		o.Blame = feedback.Overloaded
	}
	if !s.router.Complete(s.decisions[d.CmdArgs[0].Key], o) {
		return "already completed"
	}
	return s.state()
}

func (s *scenario) health(t *testing.T, d *datadriven.TestData) string {
	m := s.member(t, d.CmdArgs[0].Key)
	switch d.Cmd {
	case "drain":
		m.backend.Drain(true)
	case "unreachable":
		m.backend.SetUnreachable(true)
	case "fail":
		for range number(t, d, "times", 1) {
			s.pool.registry.Failed(m.backend, s.now)
		}
	case "cool":
		s.pool.registry.Cool(m.backend, s.now, time.Duration(number(t, d, "seconds", 1))*time.Second)
	}
	return m.backend.State(s.now).String()
}

func (s *scenario) state() string {
	var out strings.Builder
	for _, b := range s.pool.Status(s.now) {
		name, _, _ := strings.Cut(b.Backend.ID, ":")
		fmt.Fprintf(&out, "%s: %s, %d of %d in flight, %d tokens queued, %d blocks\n",
			name, b.State, b.InFlight, b.Limit, b.Queued, b.Index.Blocks)
	}
	return out.String()
}
