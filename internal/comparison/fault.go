package comparison

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/replay"
)

// faultForm is how --fault is written.
const faultForm = "t=1200s backend=3 lose-cache"

// parseFault reads what happens to one engine once: t=1200s backend=3 lose-cache. Backends
// count from 0.
func parseFault(text string) (replay.Fault, error) {
	f := replay.Fault{At: -1, Backend: -1}
	kinds := 0
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "t":
			if f.At, err = time.ParseDuration(value); err == nil && f.At < 0 {
				err = fmt.Errorf("%v is negative", f.At)
			}
		case "backend":
			f.Backend, err = strconv.Atoi(value)
		case replay.LoseCache.String():
			f.Kind = replay.LoseCache
			kinds++
		case replay.Restart.String():
			f.Kind = replay.Restart
			kinds++
		default:
			err = fmt.Errorf("%q is none of t=, backend=, %v, %v", word, replay.LoseCache, replay.Restart)
		}
		if err != nil {
			return replay.Fault{}, fmt.Errorf("--fault %q: %w: write it like %q", text, err, faultForm)
		}
	}
	if f.At < 0 || f.Backend < 0 || kinds != 1 {
		return replay.Fault{}, fmt.Errorf("--fault %q: it needs a time, a backend and one of %v, %v: write it like %q",
			text, replay.LoseCache, replay.Restart, faultForm)
	}
	return f, nil
}

// faultText writes a fault as the flag takes it.
func faultText(f replay.Fault) string {
	return fmt.Sprintf("t=%v backend=%d %v", f.At, f.Backend, f.Kind)
}
