package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/warmroute/warmroute/internal/workload"
)

// maxTraceOutput bounds the answers asked for when a trace is played, in tokens: a
// few very long ones would be most of the demo.
const maxTraceOutput = 200

// Workload returns the workload that is played when no trace is named.
func Workload(cfg Config) (workload.Text, error) {
	requests := cfg.Requests
	if requests == 0 {
		requests = defaultRequests
	}
	return workload.Agents(workload.AgentsConfig{Seed: cfg.Seed, Requests: requests, Applications: applications})
}

// loadTrace reads an agent trace from a file.
func loadTrace(path string) (workload.Text, error) {
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return workload.Text{}, fmt.Errorf("--trace: there is no file %s; without --trace a workload is generated", path)
		}
		return workload.Text{}, fmt.Errorf("--trace: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := workload.LoadLMCache(file)
	if err != nil {
		return workload.Text{}, fmt.Errorf("--trace: %s: %w", path, err)
	}
	return text.CapOutput(maxTraceOutput), nil
}
