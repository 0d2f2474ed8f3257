package report

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmroute/warmroute/internal/replay"
	"github.com/warmroute/warmroute/router"
)

// probe is what a browser says of a page.
type probe struct {
	Dark       bool     `json:"dark"`
	Background string   `json:"background"`
	Paths      int      `json:"paths"`
	Undrawn    []string `json:"undrawn"` // paths without a length or a colour
	Clipped    []string `json:"clipped"` // labels that reach out of their diagram
	Sideways   bool     `json:"sideways"`
}

// probeScript measures the page and leaves what it found in the title.
const probeScript = `<script>
document.querySelectorAll("details").forEach(d => d.open = true);
const found = {dark: matchMedia("(prefers-color-scheme: dark)").matches,
  background: getComputedStyle(document.body).backgroundColor, paths: 0, undrawn: [], clipped: [],
  sideways: document.documentElement.scrollWidth > innerWidth};
for (const path of document.querySelectorAll("svg path")) {
  found.paths++;
  if (!(path.getTotalLength() > 0) || getComputedStyle(path).stroke === "none") found.undrawn.push(path.outerHTML);
}
for (const svg of document.querySelectorAll("figure svg")) {
  const box = svg.viewBox.baseVal;
  for (const text of svg.querySelectorAll("text")) {
    const at = text.getBBox();
    if (at.x < 0 || at.y < 0 || at.x + at.width > box.width || at.y + at.height > box.height) found.clipped.push(text.textContent);
  }
}
document.title = JSON.stringify(found);
</script>`

// browse opens a page in a browser without a window and returns what became of it, and
// what the browser logged.
func browse(t *testing.T, browser, text string, args ...string) (dom, log string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1280,1600",
		"--enable-logging=stderr", "--dump-dom", "file://"+path)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), browser, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.String(), stderr.String()
}

// console are the lines that a page brought about.
func console(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, ":CONSOLE") {
			lines = append(lines, line)
		}
	}
	return lines
}

// everybody is a report with every strategy and placement, swept.
func everybody() *Report {
	r := &Report{Title: "everybody", Sweep: Sweep{Key: "concurrency_threshold", Setting: true}, Faults: []replay.Fault{{At: 1}}}
	names := router.Strategies()
	for _, p := range replay.Placements() {
		names = append(names, string(p))
	}
	for _, value := range []Value{"8", "1024"} {
		for i, name := range names {
			run := Summarize(name, result(1e8<<i, 0, 0, 400, 0))
			run.Row.SweepKey, run.Row.SweepValue = r.Sweep.Key, value
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

// TestPageInABrowser opens the page in Chromium, on a light and on a dark desktop.
func TestPageInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed; on Debian: apt-get install chromium")
	}
	text := page(t, everybody())
	_, log := browse(t, browser, text)
	if said := console(log); said != nil {
		t.Errorf("the page has errors: %q", said)
	}

	want := probe{Background: "rgb(255, 255, 255)", Undrawn: []string{}, Clipped: []string{}}
	for _, dark := range []bool{false, true} {
		var args []string
		if want.Dark = dark; dark {
			args, want.Background = []string{"--force-dark-mode"}, "rgb(20, 24, 29)"
		}
		if want.Paths = strings.Count(text, "<path"); want.Paths < 100 {
			t.Errorf("the page has %d paths", want.Paths)
		}
		if diff := cmp.Diff(want, measure(t, browser, text, args...)); diff != "" {
			t.Errorf("dark %v (-want +got):\n%s", dark, diff)
		}
	}
}

// TestLabelsInABrowser opens pages whose axes end in long labels.
func TestLabelsInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed; on Debian: apt-get install chromium")
	}
	for _, ttft := range []time.Duration{150 * time.Millisecond, 15_000 * time.Second} {
		r := &Report{Title: "alone", Runs: []Run{Summarize(router.Random, result(ttft, 0, 0, 1, 0))}}
		if got := measure(t, browser, page(t, r)); len(got.Clipped) > 0 || got.Sideways {
			t.Errorf("a time to first token of %v: labels %q are cut off, the page scrolls sideways: %v", ttft, got.Clipped, got.Sideways)
		}
	}
}

// measure opens a page in a browser and says what became of it. The page allows no scripts: a
// copy that does is measured.
func measure(t *testing.T, browser, text string, args ...string) probe {
	t.Helper()
	scripted := strings.Replace(text, html.EscapeString(policy), "", 1)
	scripted = strings.Replace(scripted, "</body>", probeScript+"</body>", 1)
	dom, log := browse(t, browser, scripted, args...)
	_, rest, _ := strings.Cut(dom, "<title>")
	title, _, _ := strings.Cut(rest, "</title>")
	var got probe
	if err := json.Unmarshal([]byte(html.UnescapeString(title)), &got); err != nil {
		t.Fatalf("%v in %q; the console says %q", err, title, console(log))
	}
	return got
}
