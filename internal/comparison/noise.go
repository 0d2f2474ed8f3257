package comparison

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/internal/replay"
)

// noiseDefault is the word for [replay.DefaultNoise].
const noiseDefault = "default"

// noisePart is one thing that goes wrong, a share of the requests or a count.
type noisePart struct {
	key   string
	share *float64
	count *int
}

func noiseParts(n *replay.Noise) []noisePart {
	return []noisePart{
		{key: "bytes_spread", share: &n.BytesSpread},
		{key: "aborts", share: &n.Aborts},
		{key: "diverging", share: &n.Diverging},
		{key: "report_zero", share: &n.ReportZero},
		{key: "foreign", share: &n.Foreign},
		{key: "fault_every", count: &n.FaultEvery},
	}
}

// noiseKeys are the names of the parts.
func noiseKeys() []string {
	var keys []string
	for _, part := range noiseParts(new(replay.Noise)) {
		keys = append(keys, part.key)
	}
	return keys
}

// parseNoise reads what goes wrong all the time: "default", aborts=0.1,foreign=0, or both,
// where what stands later counts.
func parseNoise(text string) (replay.Noise, error) {
	var n replay.Noise
	if text == "" {
		return n, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == noiseDefault {
			n = replay.DefaultNoise()
			continue
		}
		if err := setNoise(&n, word); err != nil {
			return replay.Noise{}, err
		}
	}
	return n, nil
}

// setNoise takes in one key=value.
func setNoise(n *replay.Noise, word string) error {
	key, value, _ := strings.Cut(word, "=")
	for _, part := range noiseParts(n) {
		if part.key != key {
			continue
		}
		var err error
		if part.count != nil {
			*part.count, err = strconv.Atoi(value)
		} else {
			*part.share, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return fmt.Errorf("--noise: %s: %q is not a number", key, value)
		}
		return nil
	}
	return fmt.Errorf("--noise: %q is neither %s nor one of %s= with a value", word, noiseDefault, strings.Join(noiseKeys(), "=, "))
}

// noiseText writes a noise as the flag takes it, empty for none.
func noiseText(n replay.Noise) string {
	if n == replay.DefaultNoise() {
		return noiseDefault
	}
	var words []string
	for _, part := range noiseParts(&n) {
		switch {
		case part.count != nil && *part.count != 0:
			words = append(words, fmt.Sprintf("%s=%d", part.key, *part.count))
		case part.share != nil && *part.share != 0:
			words = append(words, fmt.Sprintf("%s=%v", part.key, *part.share))
		}
	}
	return strings.Join(words, ",")
}
