package enginesim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// plainProfile makes hand computation easy: 10 ms a step, 1 ms a prefill token,
// 1 ms a decoding sequence, nothing else.
func plainProfile() Profile {
	return Profile{
		Name:             "plain",
		StepFloor:        10 * time.Millisecond,
		PrefillPerToken:  1e6,
		PerSequence:      1e6,
		KVTokens:         64,
		MaxBatchedTokens: 64,
		MaxSeqs:          8,
	}
}

// TestScript runs testdata/engine: commands and the events they lead to, worked
// out by hand. Blocks have 4 tokens unless a script says otherwise.
//
//	engine [block=4] [kv=64] [budget=64] [seqs=8] [partial] [nocache] [recount]
//	       [overhead=MS] [attention=US] [context=US]   per request, per pair of tokens, per token of context
//	submit NAME prompt=N [out=N] [ids=LETTERS] [at=MS] [skip]   ids: one letter a block
//	step [n=N]       the next N steps' events
//	run              all steps until idle
//	abort NAME at=MS | reset [preempt] at=MS | lose | slow factor=N | sleep at=MS | wake at=MS
//	stats | counters
func TestScript(t *testing.T) {
	datadriven.Walk(t, "testdata/engine", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.do(t, d)
			if err != nil {
				return "error: " + err.Error()
			}
			return out
		})
	})
}

type script struct {
	engine *Engine
	byName map[string]*Sequence
}

// args reads the arguments of a command: integers by key, and flags.
type args struct{ d *datadriven.TestData }

func (a args) num(key string, def int) int {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) == 1 {
			if n, err := strconv.Atoi(arg.Vals[0]); err == nil {
				return n
			}
		}
	}
	return def
}

func (a args) text(key string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) == 1 {
			return arg.Vals[0]
		}
	}
	return ""
}

func (a args) flag(key string) bool { return a.d.HasArg(key) }

func (a args) at() time.Duration { return time.Duration(a.num("at", 0)) * time.Millisecond }

func (s *script) do(t *testing.T, d *datadriven.TestData) (string, error) {
	t.Helper()
	a := args{d}
	if d.Cmd == "engine" {
		var err error
		s.byName = make(map[string]*Sequence)
		profile := plainProfile()
		profile.RequestOverhead = time.Duration(a.num("overhead", 0)) * time.Millisecond
		profile.AttentionPerPair = 1e3 * float64(a.num("attention", 0))
		profile.PerContextToken = 1e3 * float64(a.num("context", 0))
		s.engine, err = New(Config{
			Profile: profile, BlockSize: a.num("block", 4), KVTokens: a.num("kv", 64),
			MaxBatchedTokens: a.num("budget", 64), MaxSeqs: a.num("seqs", 8), MaxModelLen: a.num("len", 0),
			AdmitPartial: a.flag("partial"), DisablePrefixCaching: a.flag("nocache"), RecountLookups: a.flag("recount"),
		})
		return "ok\n", err
	}
	e := s.engine
	switch d.Cmd {
	case "submit":
		return s.submit(a)
	case "step":
		return s.steps(a.num("n", 1)), nil
	case "run":
		return s.steps(1000), nil
	case "abort":
		return fmt.Sprintln(e.Abort(a.at(), s.byName[d.CmdArgs[0].Key])), nil
	case "reset":
		return fmt.Sprintln(e.ResetPrefixCache(a.at(), a.flag("preempt"))), nil
	case "lose":
		e.LoseCache()
	case "slow":
		return "ok\n", e.SetSlow(float64(a.num("factor", 1)))
	case "sleep":
		e.Sleep(a.at())
	case "wake":
		e.Wake(a.at())
	case "stats":
		st := e.Stats()
		return fmt.Sprintf("waiting=%d running=%d free=%d cached=%d evicted=%d usage=%.2f\n",
			st.Arriving+st.Waiting, st.Running, st.FreeBlocks, st.CachedBlocks, st.EvictedBlocks, st.KVUsage), nil
	case "counters":
		c := e.Counters()
		return fmt.Sprintf("queries=%d hits=%d prompt=%d cached=%d generated=%d preemptions=%d stop=%d abort=%d\n",
			c.PrefixQueries, c.PrefixHits, c.PromptTokens, c.PromptTokensCached, c.GenerationTokens, c.Preemptions,
			c.Finished[FinishStop], c.Finished[FinishAbort]), nil
	default:
		return "", errors.New("unknown command")
	}
	return "ok\n", nil
}

func (s *script) submit(a args) (string, error) {
	name := a.d.CmdArgs[0].Key
	req := Request{
		PromptTokens: a.num("prompt", 0), OutputTokens: a.num("out", 1), SkipCacheRead: a.flag("skip"), Tag: name,
	}
	for _, letter := range a.text("ids") {
		req.Blocks = append(req.Blocks, BlockID(letter))
	}
	seq, err := s.engine.Submit(a.at(), req)
	if err != nil {
		return "", err
	}
	s.byName[name] = seq
	return "ok\n", nil
}

// steps takes up to n steps and lists their events.
func (s *script) steps(n int) string {
	var b strings.Builder
	for range n {
		at, ok := s.engine.NextStep()
		if !ok {
			b.WriteString("idle\n")
			break
		}
		for _, ev := range s.engine.Step(at) {
			fmt.Fprintf(&b, "%4d ms  %v %s", ev.At.Milliseconds(), ev.Sequence.Tag(), ev.Kind)
			if ev.Kind != EventToken && ev.Kind != EventFirstToken {
				fmt.Fprintf(&b, " %d", ev.Tokens)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
