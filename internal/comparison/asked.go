package comparison

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmroute/warmroute/internal/cli"
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
	flags     map[string]string // of the workloads: kind by name
	given     []string          // those that were given
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

// changed are those of the workloads' flags that are given.
func (a *asked) changed(cmd *cobra.Command) []string {
	var given []string
	for _, flag := range slices.Sorted(maps.Keys(a.flags)) {
		if cmd.Flags().Changed(flag) {
			given = append(given, flag)
		}
	}
	return given
}

// idle finds a flag that is given and changes nothing about a kind of workload.
func (a *asked) idle(kind string) error {
	for _, flag := range a.given {
		if other := a.flags[flag]; other != kind {
			of := "--workload " + other
			if !workload.Generated(other) {
				of = "--trace " + other + ":FILE"
			}
			return fmt.Errorf("--%s: it is a flag of %s, and says nothing about %s", flag, of, kind)
		}
	}
	if a.docs.Users > 0 && slices.Contains(a.given, "docs-rate") {
		return fmt.Errorf("--docs-rate: %d users of --docs-users ask when they got their answers, and at no rate: give one of the two", a.docs.Users)
	}
	return nil
}

// check finds what makes no sense, as far as that is known before a file is read.
func (a *asked) check() error {
	kind, _, err := a.source()
	if err != nil {
		return err
	}
	if err := a.idle(kind); err != nil {
		return err
	}
	if !(a.load > 0) {
		return fmt.Errorf("--load: must be above 0, is %v", a.load)
	}
	if workload.Generated(kind) {
		_, err = a.generate(kind)
	} else {
		err = a.played().Validate(kind)
	}
	return nameFlag(kind, err)
}

// open returns the workload, of flags that are checked. Errors name flags and, of a file,
// lines.
func (a *asked) open(ctx context.Context, files traceFiles) (*workload.Workload, error) {
	kind, file, err := a.source()
	if err != nil {
		return nil, err
	}
	if workload.Generated(kind) {
		return a.generate(kind)
	}
	recording, err := files.read(ctx, kind, file, a.options.Pools)
	if err != nil {
		return nil, err
	}
	return recording.Workload(a.played())
}

// generate makes a workload of a kind that is generated.
func (a *asked) generate(kind string) (*workload.Workload, error) {
	switch kind {
	case workload.KindDocs:
		c := a.docs
		c.Load = a.load
		return c.Workload()
	case workload.KindChat:
		c := a.chat
		c.Load = a.load
		return c.Workload()
	}
	c := a.head
	c.Load = a.load
	return c.Workload()
}

// played is how a recorded workload is played.
func (a *asked) played() workload.Options {
	o := a.options
	o.Load = a.load
	return o
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
	return kind + ": " + cli.Name(filepath.Base(file))
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
