package workload

import "testing"

// LimitTraceMemory lowers for a test what may be kept of a trace, in bytes.
func LimitTraceMemory(t *testing.T, bytes int) {
	before := maxTraceMemory
	maxTraceMemory = bytes
	t.Cleanup(func() { maxTraceMemory = before })
}
