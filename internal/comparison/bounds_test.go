package comparison

import (
	"errors"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/cli"
	"github.com/warmroute/warmroute/internal/config"
)

// Flags that ask for more than a run can do, or for nothing, are the caller's fault.
func TestCommandBounds(t *testing.T) {
	const nothing = "there is not one request to send"
	for _, tc := range []struct {
		args []string
		says string
	}{
		{tiny("--prefill-rate", "1e-10"), "--prefill-rate: must be in 1..1e9 tokens per second, or 0 for the profile's, is 1e-10"},
		{tiny("--prefill-rate", "NaN"), "--prefill-rate: must be in 1..1e9"},
		{tiny("--prefill-rate", "1e10"), "--prefill-rate: must be in 1..1e9"},
		{tiny("--request-overhead", "601s"), "--request-overhead: 10m1s is more than 10m"},
		{tiny("--request-overhead", "2500000h"), "--request-overhead: 2500000h0m0s is more than 10m"},
		{tiny("--docs-duration", "1ms"), nothing + ": raise --docs-rate, --docs-duration or --load"},
		{tiny("--sweep", "docs-duration=1m,1ms"), nothing + " with docs-duration=1ms: raise --docs-rate"},
		{[]string{"--workload", "head", "--head-duration", "1ms"}, nothing + ": raise --head-rate, --head-duration or --load"},
		{[]string{"--workload", "chat", "--chat-duration", "1ms"}, nothing + ": raise --chat-rate, --chat-duration or --load"},
		{tiny("--sweep", "=1,2"), `--sweep: "=1,2" names no key`},
		{tiny("--kv-tokens", "200000000", "--backends", "3"), "--kv-tokens: 3 backends of 200000000 tokens in blocks of 16 are 37500000 blocks, more than 33554432"},
		{tiny("--kv-tokens", "1330000", "--backends", "256", "--block-size", "1"), "or raise --block-size"},
		{tiny("--sweep", "kv-tokens=12000,9000000000000000000"), "--kv-tokens: "},
		{tiny("--fault", "t=9000h backend=1 restart"), `--fault "t=9000h backend=1 restart": 9000h0m0s is not in 0..8784h`},
	} {
		_, _, err := command(t.Context(), tc.args...)
		refused(t, err, tc.says)
	}
}

// 256 engines of the reference profile are within the bounds.
func TestLargestReferenceFleet(t *testing.T) {
	s := defaultScenario()
	s.backends = maxBackends
	if _, err := s.fleet(); err != nil {
		t.Error(err)
	}
}

// Flags of which the last would silently win are given once.
func TestFlagsGivenOnce(t *testing.T) {
	for flag, args := range map[string][]string{
		"--sweep": tiny("--sweep", "load=1,2", "--sweep", "w=1,2"),
		"--trace": {"--trace", "weka:a", "--trace", "weka:b"},
	} {
		_, _, err := command(t.Context(), args...)
		if err == nil || !strings.Contains(err.Error(), `"`+flag+`" flag: it is given twice`) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// On the terminal each error is a line, and each line says which flag it is about.
func TestEveryErrorNamesItsFlag(t *testing.T) {
	for _, args := range [][]string{
		{"--set", "concurrency_threshold=abc"},
		{"--set", "w=abc"},
		{"--set", "w=9"},
		{"--sweep", "concurrency_threshold=8,abc"},
		{"--sweep", "w=1,9"},
	} {
		_, _, err := command(t.Context(), tiny(args...)...)
		usage, ok := errors.AsType[*cli.UsageError](err)
		if !ok {
			t.Errorf("%v: %v", args, err)
			continue
		}
		for _, line := range config.Each(usage.Unwrap()) {
			if !strings.HasPrefix(line.Error(), args[0]+": ") {
				t.Errorf("%v: %v", args, line)
			}
		}
	}
}
