package demo

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
)

// watcher shows a progress bar for each strategy, or nothing.
type watcher struct {
	to  io.Writer // nil: show nothing
	bar *progressbar.ProgressBar
}

// newWatcher shows bars on stderr where both it and stdout are terminals: whoever
// redirects one of them wants to keep or to read what is printed.
func newWatcher(stdout, stderr io.Writer) *watcher {
	if isTerminal(stdout) && isTerminal(stderr) {
		return &watcher{to: stderr}
	}
	return &watcher{}
}

// Begin implements [Watcher].
func (w *watcher) Begin(strategy string, requests int) {
	if w.to == nil {
		return
	}
	w.bar = progressbar.NewOptions(requests,
		progressbar.OptionSetWriter(w.to),
		progressbar.OptionSetDescription(strategy),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	)
}

// Answered implements [Watcher].
func (w *watcher) Answered() {
	if w.bar != nil {
		_ = w.bar.Add(1) // a bar that cannot be drawn harms nobody
	}
}

// End implements [Watcher].
func (w *watcher) End(Result) { w.close() }

// close takes the bar off the terminal.
func (w *watcher) close() {
	if w.bar != nil {
		_ = w.bar.Finish()
		w.bar = nil
	}
}

// isTerminal reports whether w is a character device other than the null device.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
