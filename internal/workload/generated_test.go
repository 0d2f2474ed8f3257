package workload_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestHead(t *testing.T) {
	c := workload.DefaultHeadConfig()
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	requests := play(t, w, 1, 0)
	// A Poisson process of 18,000 expected arrivals is within 4 standard deviations.
	if n := float64(len(requests)); math.Abs(n-18_000) > 4*math.Sqrt(18_000) {
		t.Errorf("%v requests in an hour at 5 a second", n)
	}
	gaps, short := 0.0, 0
	for i, r := range requests {
		if diff := cmp.Diff([]int{6144, 1024}, lengths(r.Prompt)); diff != "" || r.OutputTokens != 150 {
			t.Fatalf("request %d: output %d, prompt (-want +got):\n%s", i, r.OutputTokens, diff)
		}
		if i == 0 {
			continue
		}
		if got := common(requests[i-1].Prompt, r.Prompt); got != 6144 {
			t.Fatalf("request %d and the one before share %d tokens", i, got)
		}
		gap := (r.At - requests[i-1].At).Seconds()
		gaps += gap
		if gap < 0.2*math.Ln2 {
			short++
		}
	}
	// Half of all exponential gaps are shorter than ln 2 of their mean.
	if part := float64(short) / float64(len(requests)); part < 0.48 || part > 0.52 {
		t.Errorf("%.3f of the gaps are below the median of an exponential distribution; mean gap %v s", part, gaps/float64(len(requests)))
	}
	if last := requests[len(requests)-1].At; last >= time.Hour || last < 59*time.Minute {
		t.Errorf("the last request comes at %v", last)
	}
}

// No head at all is nothing in common.
func TestHeadless(t *testing.T) {
	c := workload.DefaultHeadConfig()
	c.HeadTokens, c.Duration = 0, time.Minute
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	requests := play(t, w, 1, 2)
	if got := common(requests[0].Prompt, requests[1].Prompt); got != 0 || len(requests[0].Prompt) != 1 {
		t.Errorf("prompts share %d tokens", got)
	}
}

func TestDocsLoad(t *testing.T) {
	c := workload.DefaultDocsConfig()
	c.Duration, c.Load = time.Minute, 2
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(play(t, w, 1, 0)); n != 420 || w.Requests != n {
		t.Errorf("3.5 a second under a load of 2 are %d in a minute, promised %d, want 420", n, w.Requests)
	}
	c.Users = 3
	if w, err = c.Workload(); err != nil {
		t.Fatal(err)
	}
	// Answers take a second: 6 users ask 6 questions a second until a minute has passed.
	if n := len(play(t, w, 1, 0)); n != 360 || w.Requests != 0 {
		t.Errorf("3 users under a load of 2 ask %d questions in a minute, promised %d, want 360 and 0", n, w.Requests)
	}
}

// A user who is refused at once does not ask again at the same moment.
func TestDocsUsersPause(t *testing.T) {
	c := workload.DefaultDocsConfig()
	c.Duration, c.Users = time.Minute, 3
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(workload.Request) (time.Duration, bool) { return 0, false }
	// The limit ends the test where nothing else would.
	if n := len(playWith(t, w, 1, 1000, refuse)); n != 180 {
		t.Errorf("3 users who are always refused ask %d questions in a minute, want 180", n)
	}
}

// What a user or a conversation asks does not depend on how soon anybody is answered.
func TestClosedLoopsAskTheSame(t *testing.T) {
	docs := workload.DefaultDocsConfig()
	docs.Duration, docs.Users = 10*time.Minute, 5
	users, err := docs.Workload()
	if err != nil {
		t.Fatal(err)
	}
	chat := workload.DefaultChatConfig()
	chat.Duration = time.Minute
	talks, err := chat.Workload()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*workload.Workload{users, talks} {
		// The answers of the second play overtake each other, and so do requests.
		even := bySession(play(t, w, 1, 0))
		uneven := bySession(playWith(t, w, 1, 0, func(r workload.Request) (time.Duration, bool) {
			return time.Duration(r.OutputTokens) * 10 * time.Millisecond, true
		}))
		if len(even) != len(uneven) {
			t.Fatalf("%s: %d and %d sessions", w.Name, len(even), len(uneven))
		}
		for session, want := range even {
			got := uneven[session]
			if both := min(len(want), len(got)); w == users { // who is answered sooner asks more
				want, got = want[:both], got[:both]
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(workload.Request{}, "At")); diff != "" {
				t.Fatalf("%s: session %d depends on the answers' times:\n%s", w.Name, session, diff)
			}
		}
	}
}

func TestChatGrows(t *testing.T) {
	c := workload.DefaultChatConfig()
	c.Duration = time.Minute
	w, err := c.Workload()
	if err != nil {
		t.Fatal(err)
	}
	requests := play(t, w, 1, 0)
	turns := 0
	for _, talk := range bySession(requests) {
		for i := range talk[1:] {
			turns++
			before, next := talk[i], talk[i+1]
			said := workload.Tokens(before.Prompt) + before.OutputTokens
			withAnswer := append(before.Prompt[:len(before.Prompt):len(before.Prompt)], workload.Segment{ID: before.Answer, Tokens: before.OutputTokens})
			if got := common(withAnswer, next.Prompt); got != said {
				t.Fatalf("a question goes on from %d tokens, what was said before it has %d", got, said)
			}
		}
	}
	// 1,020 in the long run; conversations that go on beyond the minute are played too.
	if n := len(requests); n < 900 || n > 1150 || turns == 0 {
		t.Errorf("%d requests, %d of them later questions", n, turns)
	}
}

func TestConfigsNameTheWrongField(t *testing.T) {
	docs := func(change func(*workload.DocsConfig)) error {
		c := workload.DefaultDocsConfig()
		change(&c)
		return c.Validate()
	}
	chat := func(change func(*workload.ChatConfig)) error {
		c := workload.DefaultChatConfig()
		change(&c)
		return c.Validate()
	}
	head := func(change func(*workload.HeadConfig)) error {
		c := workload.DefaultHeadConfig()
		change(&c)
		return c.Validate()
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{docs(func(c *workload.DocsConfig) { c.Documents, c.DocumentTokens = 0, 0 }), "docs: documents: must be in 1..10000000, is 0"},
		{docs(func(c *workload.DocsConfig) { c.DocumentTokens = -1 }), "docs: document_tokens: must be in 1..16777216, is -1"},
		{docs(func(c *workload.DocsConfig) { c.Zipf = math.NaN() }), "docs: zipf: must be in 0..10, is NaN"},
		{docs(func(c *workload.DocsConfig) { c.QuestionMean = -1 }), "docs: question_mean: must be in 0..1.6777216e+07, is -1"},
		{docs(func(c *workload.DocsConfig) { c.QuestionSpread = math.Inf(1) }), "docs: question_spread: must be in 0..1.6777216e+07, is +Inf"},
		{docs(func(c *workload.DocsConfig) { c.OutputMean = -1 }), "docs: output_mean: must be in 0..1.6777216e+07, is -1"},
		{docs(func(c *workload.DocsConfig) { c.Rate = 0 }), "docs: rate: must be in 1e-06..1e+06, is 0"},
		{docs(func(c *workload.DocsConfig) { c.Rate, c.Load = 10_000, 10 }), "docs: rate: 10000, with load and duration, is 360000000 requests, and 10000000 can be had"},
		{docs(func(c *workload.DocsConfig) { c.Rate, c.Users = 0, -1 }), "docs: users: must be in 0..1000000, is -1"},
		{docs(func(c *workload.DocsConfig) { c.Users, c.Load = 2000, 1000 }), "docs: users, with load,: must be in 0..1000000, is 2000000"},
		{docs(func(c *workload.DocsConfig) { c.Users, c.Duration = 1, 0 }), "docs: duration: must be in 1ns..8784h0m0s, is 0s"},
		{docs(func(c *workload.DocsConfig) { c.Load = math.NaN() }), "docs: load: must be in 0.01..1000, is NaN"},
		{chat(func(c *workload.ChatConfig) { c.Rate = -1 }), "chat: rate: must be in 1e-06..1e+06, is -1"},
		{chat(func(c *workload.ChatConfig) { c.Duration = 0 }), "chat: duration: must be in 1ns..8784h0m0s, is 0s"},
		{chat(func(c *workload.ChatConfig) { c.TurnsMean = 0.5 }), "chat: turns_mean: must be in 1..1e+06, is 0.5"},
		{chat(func(c *workload.ChatConfig) { c.TurnsMax = 0 }), "chat: turns_max: must be in 1..1000000, is 0"},
		{chat(func(c *workload.ChatConfig) { c.FirstMean = 0 }), "chat: first_mean: must be in 1..1.6777216e+07, is 0"},
		{chat(func(c *workload.ChatConfig) { c.NextMean = 0 }), "chat: next_mean: must be in 1..1.6777216e+07, is 0"},
		{chat(func(c *workload.ChatConfig) { c.AnswerMean = 0 }), "chat: answer_mean: must be in 1..1.6777216e+07, is 0"},
		{chat(func(c *workload.ChatConfig) { c.Sigma = -1 }), "chat: sigma: must be in 0..10, is -1"},
		{chat(func(c *workload.ChatConfig) { c.ThinkMean = -1 }), "chat: think_mean: must be in 0s..8784h0m0s, is -1ns"},
		{chat(func(c *workload.ChatConfig) { c.PromptMax = 0 }), "chat: prompt_max: must be in 1..16777216, is 0"},
		{head(func(c *workload.HeadConfig) { c.HeadTokens = -1 }), "head: head_tokens: must be in 0..16777216, is -1"},
		{head(func(c *workload.HeadConfig) { c.OwnTokens = 0 }), "head: own_tokens: must be in 1..16777216, is 0"},
		{head(func(c *workload.HeadConfig) { c.OutputTokens = 0 }), "head: output_tokens: must be in 1..16777216, is 0"},
		{head(func(c *workload.HeadConfig) { c.Rate = math.Inf(1) }), "head: rate: must be in 1e-06..1e+06, is +Inf"},
		{head(func(c *workload.HeadConfig) { c.Load = -1 }), "head: load: must be in 0.01..1000, is -1"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}
