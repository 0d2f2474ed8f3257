package prompt_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

// The goldens pin what every kind of body becomes: streams.txt as named frames,
// keys.txt as block keys. A change of keys.txt needs a new kvindex.KeyVersion.
// Rewrite with: go test ./api/prompt -run Golden -rewrite
func TestGoldenStreams(t *testing.T) {
	datadriven.RunTest(t, "testdata/streams.txt", func(t *testing.T, d *datadriven.TestData) string {
		r, err := prompt.Parse(kindOf(t, d), []byte(d.Input))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		defer r.Release()
		var limit int
		d.MaybeScanArgs(t, "limit", &limit)
		return frames(r.Stream(limit)) + facts(r)
	})
}

func TestGoldenKeys(t *testing.T) {
	datadriven.RunTest(t, "testdata/keys.txt", func(t *testing.T, d *datadriven.TestData) string {
		r, err := prompt.Parse(kindOf(t, d), []byte(d.Input))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		defer r.Release()
		scope := kvindex.Scope{BlockBytes: 64, Pool: "pool", Model: r.Model()}
		var limit int
		var hint string
		d.MaybeScanArgs(t, "limit", &limit)
		d.MaybeScanArgs(t, "hint", &hint)
		d.MaybeScanArgs(t, "tenant", &scope.TenantID)
		keys := r.Hash(scope, limit, hint)
		var b strings.Builder
		for _, key := range keys.Blocks {
			fmt.Fprintf(&b, "%016x\n", uint64(key))
		}
		fmt.Fprintf(&b, "stream=%d hashed=%d prefix=%016x", keys.StreamBytes, keys.HashedBytes, uint64(keys.Prefix))
		if keys.HasPrefix {
			fmt.Fprintf(&b, " rendezvous=%016x", uint64(keys.Rendezvous))
		}
		return b.String() + "\n"
	})
}

func kindOf(t *testing.T, d *datadriven.TestData) prompt.Kind {
	t.Helper()
	for k := prompt.Chat; k <= prompt.Raw; k++ {
		if k.String() == d.Cmd {
			return k
		}
	}
	d.Fatalf(t, "unknown kind %q", d.Cmd)
	return 0
}

var frameNames = map[kvindex.Frame]string{
	kvindex.FrameField: "field", kvindex.FrameValue: "value", kvindex.FrameTool: "tool",
	kvindex.FrameMessage: "message", kvindex.FrameText: "text", kvindex.FrameCall: "call",
	kvindex.FrameBinary: "binary", kvindex.FrameTokens: "tokens",
}

// frames prints a stream, one frame a line. Token ids are taken to run to the end
// of the stream.
func frames(stream []byte) string {
	var b strings.Builder
	for len(stream) > 0 {
		f := kvindex.Frame(stream[0])
		name, ok := frameNames[f]
		if ok {
			stream = stream[1:]
		} else {
			name = "bytes"
		}
		b.WriteString(name)
		switch {
		case f == kvindex.FrameBinary && len(stream) >= 16:
			fmt.Fprintf(&b, " %x", stream[:16])
			stream = stream[16:]
		case f == kvindex.FrameTokens && len(stream)%4 == 0:
			for ; len(stream) > 0; stream = stream[4:] {
				fmt.Fprintf(&b, " %d", binary.LittleEndian.Uint32(stream))
			}
		default:
			n := 0
			for n < len(stream) && stream[n] < 0xF8 {
				n++
			}
			if n > 0 {
				fmt.Fprintf(&b, " %q", stream[:n])
			}
			if !utf8.Valid(stream[:n]) {
				b.WriteString(" INVALID UTF-8")
			}
			stream = stream[n:]
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// facts prints what else was read, if it is out of the ordinary.
func facts(r *prompt.Request) string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(r.Model() != "", "model=%s", r.Model())
	add(r.Streaming(), "streaming")
	add(r.N() > 1, "n=%d", r.N())
	add(r.UsageAsked() == prompt.UsageYes, "usage=yes")
	add(r.UsageAsked() == prompt.UsageNo, "usage=no")
	add(r.Salt() != "", "salt=%s", r.Salt())
	add(r.CacheKey() != "", "cache_key=%s", r.CacheKey())
	add(r.PreviousResponseID() != "", "previous=%s", r.PreviousResponseID())
	add(r.NoEvidence(), "no_evidence")
	add(r.HasBinary(), "binary")
	if len(all) == 0 {
		return ""
	}
	return "-- " + strings.Join(all, " ") + "\n"
}
