package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// The kinds of workload.
const (
	KindDocs       = "docs"        // [DocsConfig]
	KindChat       = "chat"        // [ChatConfig]
	KindHead       = "head"        // [HeadConfig]
	KindMooncake   = "mooncake"    // [ReadMooncake]
	KindWeka       = "weka"        // [ReadWeka]
	KindAgentText  = "agent-text"  // [ReadAgentText]
	KindRequestLog = "request-log" // [ReadRequestLog]
)

// Kinds returns the names of all kinds, those first that are generated.
func Kinds() []string {
	return []string{KindDocs, KindChat, KindHead, KindMooncake, KindWeka, KindAgentText, KindRequestLog}
}

// Generated reports whether workloads of a kind are generated and need no file.
func Generated(kind string) bool {
	return kind == KindDocs || kind == KindChat || kind == KindHead
}

// Options say how a workload is played. The zero value works.
type Options struct {
	// Load multiplies the load: the rate, or the number of users, or how fast recorded
	// requests or sessions follow each other. 0 is 1.
	Load float64
	// Window is the time over which the sessions of [KindWeka] begin. 0 is an hour.
	Window time.Duration
	// Users is how many sessions of [KindAgentText] go on at once. 0 is
	// [DefaultAgentTextUsers].
	Users int
	// Pools are those whose requests of [KindRequestLog] are played, all when empty.
	Pools []string
}

func (o Options) weka() WekaConfig           { return WekaConfig{Window: o.Window, Load: o.Load} }
func (o Options) agentText() AgentTextConfig { return AgentTextConfig{Users: o.Users, Load: o.Load} }

// Validate names the first option that makes no sense for a kind.
func (o Options) Validate(kind string) error {
	switch kind {
	case KindWeka:
		return o.weka().Validate()
	case KindAgentText:
		return o.agentText().Validate()
	}
	return firstWrong(kind, checkLoad(o.Load))
}

// Open returns a workload of a kind: of a file's content, plain or gzip, or generated as
// the kind's default configuration says, where r is not used and may be nil.
func Open(kind string, r io.Reader, o Options) (*Workload, error) {
	switch kind {
	case KindDocs:
		c := DefaultDocsConfig()
		c.Load = o.Load
		return c.Workload()
	case KindChat:
		c := DefaultChatConfig()
		c.Load = o.Load
		return c.Workload()
	case KindHead:
		c := DefaultHeadConfig()
		c.Load = o.Load
		return c.Workload()
	}
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("there is no kind of workload %q: the kinds are %s", kind, strings.Join(Kinds(), ", "))
	}
	if r == nil {
		return nil, fmt.Errorf("a workload of kind %q is read from a file, and there is none", kind)
	}
	if err := o.Validate(kind); err != nil { // before there is much to read
		return nil, err
	}
	recording, err := Read(kind, r, o.Pools...)
	if err != nil {
		return nil, err
	}
	return recording.Workload(o)
}

// errNoRequests is the reason when a file has no requests.
var errNoRequests = &LineError{Line: 1, Err: errors.New("the file holds no requests")}

// eachRecord is [eachLine] for a reader of one kind of file. When the very first line
// cannot be used, the error also says what that line looks like.
func eachRecord(r io.Reader, use func(line []byte) error) error {
	first := true
	return eachLine(r, func(line []byte) error {
		err := use(line)
		if err != nil && first {
			err = fmt.Errorf("%w; %s", err, portray(line))
		}
		first = false
		return err
	})
}

// marks are fields by which a line of a kind is known.
var marks = []struct {
	kind   string
	fields []string
}{
	{KindMooncake, []string{"input_length", "hash_ids"}},
	{KindWeka, []string{"block", "request"}},
	{KindWeka, []string{"tool_tokens", "requests"}},
	{KindAgentText, []string{"input", "session_id"}},
	{KindRequestLog, []string{"arrived", "keys"}},
}

// Bounds of what an error says of a line.
const (
	maxNames    = 8
	maxNameSize = 32
)

// portray says what a line looks like, in the names of its fields alone.
func portray(line []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || len(fields) == 0 {
		return "the line is not a JSON object with fields"
	}
	names := slices.Sorted(maps.Keys(fields))
	shown := make([]string, 0, maxNames)
	for _, name := range names[:min(len(names), maxNames)] {
		shown = append(shown, fmt.Sprintf("%.*q", maxNameSize, name))
	}
	text := "the line has the fields " + strings.Join(shown, ", ")
	if len(names) > maxNames {
		text += ", …"
	}
	for _, m := range marks {
		if !slices.ContainsFunc(m.fields, func(f string) bool { _, ok := fields[f]; return !ok }) {
			return text + fmt.Sprintf(", as a file of kind %q does", m.kind)
		}
	}
	return text
}
