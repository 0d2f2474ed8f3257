package comparison

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/cli"
)

// refused checks that a command fails for its caller's fault and says so.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	if _, ok := errors.AsType[*cli.UsageError](err); !ok || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want a UsageError with %q", err, says)
	}
}

// A trace took hours to record: no slip of the keyboard puts a report in its place.
func TestHTMLSparesTheTrace(t *testing.T) {
	dir := t.TempDir()
	trace, alias, twin := filepath.Join(dir, "trace.jsonl"), filepath.Join(dir, "alias"), filepath.Join(dir, "twin")
	const recorded = `{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}` + "\n"
	if err := errors.Join(os.WriteFile(trace, []byte(recorded), 0o600), os.Symlink(trace, alias), os.Link(trace, twin)); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{trace, alias, twin, filepath.Join(dir, ".", "trace.jsonl")} {
		_, _, err := command(t.Context(), "--trace", "mooncake:"+trace, "--strategy", "RANDOM", "--html", page)
		refused(t, err, "--html: "+page+" is the file that is read, or printed to")
	}
	if left, err := os.ReadFile(trace); err != nil || string(left) != recorded {
		t.Errorf("the trace is %q (%v)", left, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"alias", "trace.jsonl", "twin"}) {
		t.Errorf("the directory holds %v", got)
	}
}

// The table would be lost in a file that the page replaces.
func TestHTMLSparesTheOutput(t *testing.T) {
	printed, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = printed.Close() }()
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(tiny("--html", printed.Name()))
	cmd.SetOut(printed)
	refused(t, cmd.ExecuteContext(t.Context()), "is the file that is read, or printed to")
}

func TestHTMLFollowsLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	page, link := filepath.Join(elsewhere, "page.html"), filepath.Join(dir, "link.html")
	if err := errors.Join(os.WriteFile(page, nil, 0o600), os.Symlink(page, link)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := command(t.Context(), tiny("--strategy", "RANDOM", "--html", link)...); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(link); err != nil || target != page {
		t.Errorf("the link leads to %q (%v)", target, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<!DOCTYPE html>") {
		t.Errorf("at its end is %q (%v)", text, err)
	}
	if got := slices.Concat(names(t, dir), names(t, elsewhere)); !slices.Equal(got, []string{"link.html", "page.html"}) {
		t.Errorf("the directories hold %v", got)
	}
}

func TestHTMLRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	nowhere, device := filepath.Join(dir, "nowhere"), filepath.Join(dir, "device")
	if err := errors.Join(os.Symlink(filepath.Join(dir, "absent"), nowhere), os.Symlink(os.DevNull, device)); err != nil {
		t.Fatal(err)
	}
	for page, says := range map[string]string{
		nowhere: "--html: " + nowhere + ": no such file", device: "--html: " + device + " is not a file", os.DevNull: "is not a file",
	} {
		_, _, err := command(t.Context(), tiny("--html", page)...)
		refused(t, err, says)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"device", "nowhere"}) {
		t.Errorf("the directory holds %v", got)
	}
}
