// Package bench measures the hot path as a whole: from the bytes of a request body
// to a chosen backend. The parts have benchmarks beside their own code.
package bench
