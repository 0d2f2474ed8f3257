package browser

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long one script may take: on a machine that is idle, half a minute.
const patience = 6 * time.Minute

// stage is what each script is told.
type stage struct {
	Chromium string `json:"chromium"`
	Shots    string `json:"shots"` // the directory that screenshots go to
	World    any    `json:"world"` // what runs

	node string
}

// newStage skips the test where something is missing that drives the browser.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := new(stage)
	var err error
	if s.node, err = exec.LookPath("node"); err != nil {
		t.Skip("node is not here")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("the browser's driver is not here: make ui-test fetches it")
	}
	if s.Chromium, err = exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not here: make ui-test installs it on Debian")
	}
	if s.Shots, err = filepath.Abs(filepath.Join("..", "..", "out", "browser")); err != nil {
		t.Fatal(err)
	}
	return s
}

// play has a script drive the page, check by check, of which there are so many.
func (s *stage) play(t *testing.T, script string, world any, checks int) {
	t.Helper()
	s.World = world
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, script, string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", script, err)
	}
	done := 0
	for line := range strings.Lines(string(out)) {
		var one struct {
			Name, Error, Note string
			Seconds           float64
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("%s said %q", script, line)
			continue
		}
		done++
		t.Run(one.Name, func(t *testing.T) {
			t.Logf("%.1f s %s", one.Seconds, one.Note)
			if one.Error != "" {
				t.Error(one.Error)
			}
		})
	}
	if done != checks {
		t.Errorf("%d checks of %d came to an end", done, checks)
	}
}
