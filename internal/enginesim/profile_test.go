package enginesim

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestProfilesFitTheTable compares the formulas with the calibrated totals they
// were fitted to, in milliseconds: prefill of 1k, 4k, 8k and 32k tokens, and
// decode steps by batch and context.
func TestProfilesFitTheTable(t *testing.T) {
	for name, want := range map[string]struct {
		prefill [4]float64
		decode  map[[2]int]float64
	}{
		"llama-70b-8xh100": {
			prefill: [4]float64{40, 164, 340, 1650},
			decode: map[[2]int]float64{
				{1, 1024}: 9.7, {8, 1024}: 9.9, {32, 1024}: 10.6, {64, 1024}: 11.6, {128, 1024}: 13.5, {256, 1024}: 17.3,
				{8, 4096}: 10.5, {32, 4096}: 12.9, {64, 4096}: 16.2, {128, 4096}: 22.8, {256, 4096}: 36,
			},
		},
		"llama-8b-h100": {
			prefill: [4]float64{33, 138, 296, 1660},
			decode: map[[2]int]float64{
				{1, 1024}: 6.9, {8, 1024}: 7.5, {32, 1024}: 9.5, {64, 1024}: 12.1, {128, 1024}: 17.4, {256, 1024}: 27.9,
				{8, 4096}: 9.4, {32, 4096}: 17, {64, 4096}: 27,
			},
		},
		"llama-8b-a100": {
			prefill: [4]float64{123, 519, 1113, 6230},
			decode: map[[2]int]float64{
				{1, 1024}: 10.6, {8, 1024}: 11.5, {32, 1024}: 14.7, {128, 1024}: 27.5, {256, 1024}: 44, {32, 4096}: 27, {64, 4096}: 44,
			},
		},
		"llama-8b-l40s": {
			prefill: [4]float64{126, 531, 1139, 6380},
			decode: map[[2]int]float64{
				{1, 1024}: 23.5, {8, 1024}: 25.6, {32, 1024}: 33, {64, 1024}: 43, {128, 1024}: 63, {8, 4096}: 33, {32, 4096}: 62,
			},
		},
	} {
		p, err := ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, tokens := range []int{1024, 4096, 8192, 32768} {
			checkNear(t, name+" prefill", p.PrefillTime(tokens, 0), want.prefill[i])
		}
		for at, ms := range want.decode {
			checkNear(t, name+" decode", p.DecodeTime(at[0], at[0]*at[1]), ms)
		}
	}
}

func checkNear(t *testing.T, what string, got time.Duration, wantMS float64) {
	t.Helper()
	ms := float64(got) / float64(time.Millisecond)
	if math.Abs(ms-wantMS) > 0.04*wantMS {
		t.Errorf("%s = %.1f ms, want %.1f within 4 %%", what, ms, wantMS)
	}
}

// TestChunksCostTheSame checks that a prefill's cost does not depend on how it is
// cut.
func TestChunksCostTheSame(t *testing.T) {
	p, err := ProfileByName("llama-70b-8xh100")
	if err != nil {
		t.Fatal(err)
	}
	whole := p.PrefillTime(30000, 0)
	var parts time.Duration
	for at := 0; at < 30000; at += 6000 {
		parts += p.PrefillTime(6000, at)
	}
	if diff := (whole - parts).Abs(); diff > time.Microsecond {
		t.Errorf("prefill in one chunk takes %s, in five %s", whole, parts)
	}
}

func TestUnknownProfile(t *testing.T) {
	_, err := ProfileByName("h200")
	if err == nil || !strings.Contains(err.Error(), `"h200"`) || !strings.Contains(err.Error(), "llama-8b-h100") {
		t.Errorf("error %v, want one that names the profile and those there are", err)
	}
}
