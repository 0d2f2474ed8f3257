package cli

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar shows how many requests of a job are through, how fast it goes and how long it will
// take. A nil Bar shows nothing. It is safe for concurrent use.
type Bar struct{ bar *progressbar.ProgressBar }

// redraw is how often a bar is drawn at most.
const redraw = 100 * time.Millisecond

// NewBar draws a bar for a number of requests, or for an unknown number when it is 0. It
// draws on whatever w is: whether that is a terminal is for the caller to ask.
func NewBar(w io.Writer, name string, requests int) *Bar {
	if requests == 0 {
		requests = -1
	}
	return &Bar{progressbar.NewOptions(requests,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("requests"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(redraw),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// Add tells that some more requests are through.
func (b *Bar) Add(requests int) {
	if b != nil {
		_ = b.bar.Add(requests) // a bar that cannot be drawn harms nobody
	}
}

// Close takes the bar off the terminal.
func (b *Bar) Close() {
	if b != nil {
		_ = b.bar.Finish()
	}
}
