package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size. In a file it is a number of bytes, or text with a unit: "64MiB".
type Bytes int64

// byteUnits are the units of sizes, largest first within a family, so that a size
// is shown in the largest that divides it.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// String returns the size with the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalYAML writes the size as a file would.
func (b Bytes) MarshalYAML() (any, error) { return b.String(), nil }

// parseBytes reads a size.
func parseBytes(text string) (Bytes, error) {
	number, unit := text, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if errors.Is(err, strconv.ErrRange) && n > 0 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: write a number of bytes, or one with a unit such as 64MiB", text)
	}
	if n < 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return Bytes(n * unit), nil
}

// parseDuration reads a duration, which needs a unit: a bare number has been taken
// for seconds by some and for milliseconds by others.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case err == nil:
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%s has no unit: write %ss for seconds, %sms for milliseconds", text, text, text)
	}
	return 0, fmt.Errorf("%q is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 1h", text)
}

// redacted stands for a secret wherever it would be shown.
const redacted = "(redacted)"

// Secret is a value that is never shown. Only [Secret.Reveal] gives it away.
type Secret string

// Reveal returns the secret.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText hides the secret from JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides the secret from YAML.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// expand replaces ${NAME} by the environment. Errors never hold a value.
func expand(text string, lookup func(string) (string, bool)) (Secret, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return Secret(out.String()), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("a ${ without its }: write ${NAME}")
		}
		if !isEnvName(name) {
			return "", errors.New("what stands between ${ and } is not the name of an environment variable")
		}
		value, set := lookup(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is empty", name)
		}
		out.WriteString(value)
		text = after
	}
}

func isEnvName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
