package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestBadUsage(t *testing.T) {
	if err := BadUsage(nil); err != nil {
		t.Errorf("nothing wrong is %v", err)
	}
	cause := errors.New("--speed: 0")
	err := BadUsage(cause)
	if usage, ok := errors.AsType[*UsageError](err); !ok || usage.Error() != "--speed: 0" || !errors.Is(err, cause) {
		t.Errorf("%#v", err)
	}
}

func TestNoArgs(t *testing.T) {
	root, cmd := &cobra.Command{Use: "warmroute"}, &cobra.Command{Use: "serve"}
	root.AddCommand(cmd)
	if err := NoArgs(cmd, nil); err != nil {
		t.Error(err)
	}
	const want = `serve takes no arguments, only flags: "a b" (see warmroute serve --help)`
	if err := NoArgs(cmd, []string{"a", "b"}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	defer func() { _ = w.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if IsTerminal(w) || IsTerminal(null) || IsTerminal(&strings.Builder{}) {
		t.Error("a pipe, the null device or a buffer counts as a terminal")
	}
}

func TestBar(t *testing.T) {
	var out strings.Builder
	bar := NewBar(&out, "RANDOM", 2)
	bar.Add(1)
	bar.Close()
	if got := out.String(); !strings.Contains(got, "RANDOM") || !strings.Contains(got, "/2") {
		t.Errorf("drew %q", got)
	}
	var none *Bar
	none.Add(1)
	none.Close()
}
