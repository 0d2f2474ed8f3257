package comparison

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// asked is what the flags say of the workload.
type asked struct {
	trace     string // --trace: KIND:FILE
	generated string // --workload
	load      float64
	docs      workload.DocsConfig
	chat      workload.ChatConfig
	head      workload.HeadConfig
	options   workload.Options
}

// traceKinds are the kinds of workload that are read from files.
func traceKinds() []string { return slices.DeleteFunc(workload.Kinds(), workload.Generated) }

// generatedKinds are the kinds that are not.
func generatedKinds() []string {
	return slices.DeleteFunc(workload.Kinds(), func(kind string) bool { return !workload.Generated(kind) })
}

// source tells the kind of workload, and the file where it is read from one.
func (a *asked) source() (kind, file string, err error) {
	switch {
	case a.trace != "" && a.generated != "":
		return "", "", errors.New("--trace and --workload exclude each other: a workload is either read or generated")
	case a.trace == "" && a.generated == "":
		return "", "", fmt.Errorf("there is nothing to replay: give --workload %s, or --trace KIND:FILE", strings.Join(generatedKinds(), "|"))
	case a.generated != "" && !slices.Contains(generatedKinds(), a.generated):
		return "", "", fmt.Errorf("--workload: %q is not one of %s", a.generated, strings.Join(generatedKinds(), ", "))
	case a.generated != "":
		return a.generated, "", nil
	}
	kind, file, found := strings.Cut(a.trace, ":")
	if !found || file == "" || !slices.Contains(traceKinds(), kind) {
		return "", "", fmt.Errorf("--trace: %q is not KIND:FILE with KIND one of %s", a.trace, strings.Join(traceKinds(), ", "))
	}
	return kind, file, nil
}

// foreign finds flags that are given and belong to another kind of workload.
func (a *asked) foreign(kind string) error {
	for _, other := range []struct {
		kind  string
		given bool
	}{
		{workload.KindDocs, a.docs != workload.DefaultDocsConfig()},
		{workload.KindChat, a.chat != workload.DefaultChatConfig()},
		{workload.KindHead, a.head != workload.DefaultHeadConfig()},
		{workload.KindWeka, a.options.Window != 0},
		{workload.KindAgentText, a.options.Users != 0},
		{workload.KindRequestLog, len(a.options.Pools) > 0},
	} {
		if other.given && other.kind != kind {
			return fmt.Errorf("a flag of the workload %s (--%s-…) is given, and what is replayed is %s", other.kind, other.kind, kind)
		}
	}
	return nil
}

// open returns the workload. Errors name flags and, of a file, lines.
func (a *asked) open(ctx context.Context) (*workload.Workload, error) {
	kind, file, err := a.source()
	if err != nil {
		return nil, err
	}
	if err := a.foreign(kind); err != nil {
		return nil, err
	}
	if !(a.load > 0) {
		return nil, fmt.Errorf("--load: must be above 0, is %v", a.load)
	}
	var w *workload.Workload
	switch kind {
	case workload.KindDocs:
		c := a.docs
		c.Load = a.load
		w, err = c.Workload()
	case workload.KindChat:
		c := a.chat
		c.Load = a.load
		w, err = c.Workload()
	case workload.KindHead:
		c := a.head
		c.Load = a.load
		w, err = c.Workload()
	default:
		return a.read(ctx, kind, file)
	}
	return w, nameFlag(kind, err)
}

// read reads a trace.
func (a *asked) read(ctx context.Context, kind, file string) (*workload.Workload, error) {
	f, err := os.Open(file)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("--trace: %s: %w", file, failed.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer func() { _ = f.Close() }()
	options := a.options
	options.Load = a.load
	w, err := workload.Open(kind, interruptible{ctx, f}, options)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return w, nil
	case errors.As(err, new(*workload.LineError)):
		return nil, fmt.Errorf("--trace: %s: %w", file, err)
	}
	return nil, nameFlag(kind, err)
}

// interruptible is a reader that stops when a context ends.
type interruptible struct {
	ctx context.Context //nolint:containedctx // a reader has no other way
	r   io.Reader
}

// Read implements [io.Reader].
func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// nameFlag gives a field of a workload's configuration, which an error names behind the
// workload, the name of its flag: "docs: zipf: …" is about --docs-zipf.
func nameFlag(kind string, err error) error {
	if err == nil {
		return nil
	}
	rest, found := strings.CutPrefix(err.Error(), kind+": ")
	field, rest, named := strings.Cut(rest, ":")
	switch {
	case !found || !named || strings.Contains(field, " "):
		return err
	case field == "load":
		return fmt.Errorf("--load:%s", rest)
	}
	return fmt.Errorf("--%s:%s", flagOf(kind, strings.ReplaceAll(field, "_", "-")), rest)
}

// flagOf is the flag of a kind's field. Fields that begin with the kind's name do not say
// it twice.
func flagOf(kind, field string) string { return kind + "-" + strings.TrimPrefix(field, kind+"-") }

// title says in one line what is replayed.
func (a *asked) title() string {
	kind, file, _ := a.source()
	switch kind {
	case workload.KindDocs:
		c := a.docs
		arrivals := fmt.Sprintf("%v requests/s", c.Rate)
		if c.Users > 0 {
			arrivals = fmt.Sprintf("%d users", c.Users)
		}
		return fmt.Sprintf("docs: questions on %d documents of %d tokens, %s for %s", c.Documents, c.DocumentTokens, arrivals, short(c.Duration))
	case workload.KindChat:
		return fmt.Sprintf("chat: conversations of %v turns on average, %v requests/s for %s", a.chat.TurnsMean, a.chat.Rate, short(a.chat.Duration))
	case workload.KindHead:
		c := a.head
		return fmt.Sprintf("head: %d tokens common to all prompts and %d of each one's own, %v requests/s for %s", c.HeadTokens, c.OwnTokens, c.Rate, short(c.Duration))
	}
	return kind + ": " + filepath.Base(file)
}

// more says how there would be more requests.
func (a *asked) more() string {
	if a.generated == "" {
		return "the trace has none"
	}
	return fmt.Sprintf("raise --%[1]s-rate, --%[1]s-duration or --load", a.generated)
}

// estimate is how many requests there will be about, 0 when nobody can know.
func (a *asked) estimate(w *workload.Workload) int {
	switch {
	case w.Requests > 0:
		return w.Requests
	case a.generated == workload.KindChat:
		return int(a.chat.Rate * a.load * a.chat.Duration.Seconds())
	case a.generated == workload.KindHead:
		return int(a.head.Rate * a.load * a.head.Duration.Seconds())
	}
	return 0
}

// short writes a duration without the parts that are 0.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
