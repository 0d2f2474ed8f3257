package telemetry

import "sync"

// calibrationMemory is how many captured tokens a backend's calibration looks back on,
// about: older ones count less and less.
const calibrationMemory = 200_000

// calibration is the part of a backend's matches that predictions count on. The router
// keeps one factor for each scope; this is their mean by tokens over the latest answers.
type calibration struct {
	mu                  sync.Mutex
	captured, predicted float64
}

// observe takes in one answer's tokens.
func (c *calibration) observe(captured, predicted int) {
	if captured <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.captured += float64(captured)
	c.predicted += float64(max(predicted, 0))
	if c.captured > calibrationMemory {
		c.predicted *= calibrationMemory / c.captured
		c.captured = calibrationMemory
	}
}

// ratio returns the mean; ok is false before there was any match.
func (c *calibration) ratio() (ratio float64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.captured == 0 {
		return 0, false
	}
	return c.predicted / c.captured, true
}
