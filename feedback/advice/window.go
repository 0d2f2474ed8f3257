package advice

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/router"
)

// Window is the requests that advice rests on. It does not change.
type Window struct {
	pool     string
	requests *recent.Window
	backends int // that they went to, 0 where that is not known
}

// replayed reports whether a request is played: not those that no engine would take.
func replayed(r feedback.Result) bool { return r != feedback.NotFound && r != feedback.Rejected }

// requestWork is what a request costs a replay beside its prompt, in tokens of a prompt.
const requestWork = 1500

// DefaultWork is how much is replayed at most for each value of a setting: prompt tokens, and
// requestWork for each request. A replay of so much takes about four seconds of one core, and
// advice about thirty of them: a minute on two cores.
const DefaultWork = 200_000_000

// Recent returns the newest requests of a pool that a store remembers, up to so much work in
// a replay; 0 is [DefaultWork].
func Recent(s *recent.Store, pool string, work int) *Window {
	left := cmp.Or(work, DefaultWork)
	w := s.Window(pool, func(p recent.Prompt) bool {
		left -= requestWork + promptTokens(&p, feedback.DefaultBytesPerToken)
		return left >= 0
	})
	w.Requests = slices.DeleteFunc(w.Requests, func(p recent.Prompt) bool { return !replayed(p.Result) })
	return &Window{pool: pool, requests: w}
}

// Since leaves out what came before a moment; it returns the window.
func (w *Window) Since(at time.Time) *Window {
	all := w.requests.Requests
	first, _ := slices.BinarySearchFunc(all, at, func(p recent.Prompt, at time.Time) int { return p.Arrived.Compare(at) })
	w.requests.Requests, w.requests.Whole = all[first:], w.requests.Whole && first == 0
	return w
}

// promptTokens is the length of a prompt, reckoned where it was not reported.
func promptTokens(p *recent.Prompt, bytesPerToken float64) int {
	if p.PromptTokens != recent.Unknown {
		return p.PromptTokens
	}
	return int(float64(p.StreamBytes) / bytesPerToken)
}

// logBytes is how much memory the requests of a log may take.
const logBytes = 512 << 20

// ReadLog reads a request log, plain or gzip, and returns its newest requests of a pool, up to so
// much work in a replay; 0 is [DefaultWork]. Without a name it is the only pool there is.
func ReadLog(r io.Reader, pool string, work int) (*Window, error) {
	return readLog(r, recent.New(logBytes), pool, work)
}

func readLog(r io.Reader, store *recent.Store, pool string, work int) (*Window, error) {
	backends := make(map[string]map[string]bool) // by pool
	err := workload.ScanRequestLog(r, func(l *workload.LoggedRequest) error {
		result, ok := results[l.Result]
		if !ok {
			return fmt.Errorf(`"result": %q is none`, l.Result)
		}
		if backends[l.Pool] == nil {
			backends[l.Pool] = make(map[string]bool)
		}
		if l.Backend != "" {
			backends[l.Pool][l.Backend] = true
		}
		store.Add(logged(l, result))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if pool == "" && len(backends) == 1 {
		pool = slices.Collect(maps.Keys(backends))[0]
	}
	if backends[pool] == nil {
		return nil, noPool(pool, slices.Sorted(maps.Keys(backends)))
	}
	w := Recent(store, pool, work)
	w.backends = len(backends[pool])
	return w, nil
}

// noPool says that a log does not have a pool, or that one of several must be named.
func noPool(pool string, others []string) error {
	switch {
	case len(others) == 0:
		return errors.New("the file holds no requests")
	case pool == "":
		return fmt.Errorf("the file holds requests of the pools %s: name one of them", strings.Join(others, ", "))
	}
	return fmt.Errorf("the file holds no requests of the pool %q, only of %s", pool, strings.Join(others, ", "))
}

// results are all results by name.
var results = func() map[string]feedback.Result { //nolint:gochecknoglobals // a constant
	all := make(map[string]feedback.Result)
	for _, r := range feedback.Results() {
		all[r.String()] = r
	}
	return all
}()

// wholeShare is the part of an answer's time after which its first data is taken for all of it,
// which a log does not tell apart.
const wholeShare = 0.98

// logged is a line of a log as a store remembers it.
func logged(l *workload.LoggedRequest, result feedback.Result) *recent.Request {
	q := &recent.Request{
		Pool: l.Pool, Keys: l.Keys, BlockBytes: l.BlockBytes, StreamBytes: l.StreamBytes,
		Facts: recent.Facts{
			Arrived: l.Arrived, Duration: seconds(l.DurationSeconds), TTFT: seconds(l.TTFTSeconds), Result: result,
			Overflow:     overflows[l.Reason],
			PromptTokens: reported(l.PromptTokens), CachedTokens: reported(l.CachedTokens), OutputTokens: reported(l.OutputTokens),
		},
	}
	if l.TTFTSeconds > wholeShare*l.DurationSeconds && q.OutputTokens != 1 {
		q.TTFT = 0
	}
	return q
}

// overflows are the reasons that say that a better backend was full.
var overflows = func() map[string]bool { //nolint:gochecknoglobals // a constant
	all := make(map[string]bool)
	for _, r := range router.Reasons() {
		all[r.String()] = r.IsOverflow()
	}
	return all
}()

func reported(tokens *int) int {
	if tokens == nil {
		return recent.Unknown
	}
	return *tokens
}

// Pool is the name of the pool that the requests are of.
func (w *Window) Pool() string { return w.pool }

// Backends is how many backends the requests of a log went to; 0 where that is not known.
func (w *Window) Backends() int { return w.backends }

// warmShare is the part of the time that warms the caches.
const warmShare = 0.2

// span is from the first arrival to the last.
func (w *Window) span() (from, to time.Time) {
	all := w.requests.Requests
	if len(all) == 0 {
		return from, to
	}
	return all[0].Arrived, all[len(all)-1].Arrived
}

// counts is when the time that counts begins and ends, from the first arrival on.
func (w *Window) counts() (from, to time.Duration) {
	first, last := w.span()
	whole := last.Sub(first)
	return time.Duration(warmShare * float64(whole)), whole + 1
}

// asked makes the requests a workload.
func (w *Window) asked(bytesPerToken float64) *workload.Workload {
	first, _ := w.span()
	r := workload.Remembered{BytesPerToken: bytesPerToken}
	for _, b := range w.requests.Blocks {
		r.Block(b.Key, b.Parent)
	}
	for i := range w.requests.Requests {
		p := &w.requests.Requests[i]
		r.Request(workload.RememberedRequest{
			At: p.Arrived.Sub(first), Lasted: p.Duration, Last: p.Last, Depth: p.Depth,
			BlockBytes: int32(w.requests.BlockBytes), StreamBytes: p.StreamBytes, //nolint:gosec // of a configuration
			PromptTokens: int32(p.PromptTokens), OutputTokens: int32(p.OutputTokens), CachedTokens: int32(p.CachedTokens), //nolint:gosec // as they were kept
		})
	}
	return r.Workload(w.pool)
}

// longest is the longest prompt, in bytes of key stream.
func (w *Window) longest() int {
	longest := int32(0)
	for i := range w.requests.Requests {
		longest = max(longest, w.requests.Requests[i].StreamBytes)
	}
	return int(longest)
}

// distinct is how many different prefixes of so many bytes there are.
func (w *Window) distinct(prefixLength int) int {
	blocks := w.requests.Blocks
	depths := make([]int32, len(blocks))
	cut := make([]int32, len(blocks))                                      // where a prompt that goes on to the block is cut
	limit := int32(min(prefixLength/max(w.requests.BlockBytes, 1), 1<<30)) //nolint:gosec // bounded
	for i, b := range blocks {
		depths[i], cut[i] = 1, int32(i) //nolint:gosec // as many as are numbered by it
		if b.Parent != recent.NoBlock {
			if depths[i] = depths[b.Parent] + 1; depths[i] > limit {
				cut[i] = cut[b.Parent]
			}
		}
	}
	seen := make(map[int32]bool)
	for i := range w.requests.Requests {
		if last := w.requests.Requests[i].Last; last != recent.NoBlock {
			seen[cut[last]] = true
		}
	}
	return len(seen)
}
