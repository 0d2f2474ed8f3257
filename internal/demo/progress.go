package demo

import (
	"io"

	"github.com/warmroute/warmroute/internal/cli"
)

// watcher shows a progress bar for each strategy, or nothing.
type watcher struct {
	to  io.Writer // nil: show nothing
	bar *cli.Bar
}

// newWatcher shows bars on stderr where both it and stdout are terminals: whoever
// redirects one of them wants to keep or to read what is printed.
func newWatcher(stdout, stderr io.Writer) *watcher {
	if cli.IsTerminal(stdout) && cli.IsTerminal(stderr) {
		return &watcher{to: stderr}
	}
	return &watcher{}
}

// Begin implements [Watcher].
func (w *watcher) Begin(strategy string, requests int) {
	if w.to != nil {
		w.bar = cli.NewBar(w.to, strategy, requests)
	}
}

// Answered implements [Watcher].
func (w *watcher) Answered() { w.bar.Add(1) }

// End implements [Watcher].
func (w *watcher) End(Result) { w.close() }

// close takes the bar off the terminal.
func (w *watcher) close() {
	w.bar.Close()
	w.bar = nil
}
