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

// latestFault is further from the beginning than any run goes, 366 days.
const latestFault = 366 * 24 * time.Hour

// parseFault reads what happens to one engine once: t=1200s backend=3 lose-cache. Backends
// count from 0.
func parseFault(text string) (replay.Fault, error) {
	var f replay.Fault
	times, backends, kinds := 0, 0, 0
	for word := range strings.FieldsSeq(text) {
		var err error
		switch key, value, valued := strings.Cut(word, "="); {
		case key == "t":
			times++
			f.At, err = parseMoment(value)
		case key == "backend":
			backends++
			f.Backend, err = strconv.Atoi(value)
		case key == replay.LoseCache.String() && !valued:
			kinds++
			f.Kind = replay.LoseCache
		case key == replay.Restart.String() && !valued:
			kinds++
			f.Kind = replay.Restart
		default:
			err = fmt.Errorf("%q is none of t=, backend=, %v, %v", word, replay.LoseCache, replay.Restart)
		}
		if err != nil {
			return replay.Fault{}, fmt.Errorf("--fault %q: %w: write it like %q", text, err, faultForm)
		}
	}
	if times != 1 || backends != 1 || kinds != 1 || f.Backend < 0 {
		return replay.Fault{}, fmt.Errorf("--fault %q: it needs one time, one backend from 0 on and one of %v, %v: write it like %q",
			text, replay.LoseCache, replay.Restart, faultForm)
	}
	return f, nil
}

// parseMoment reads when something happens.
func parseMoment(text string) (time.Duration, error) {
	at, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time such as 90s or 1h30m", text)
	case at < 0 || at > latestFault:
		return 0, fmt.Errorf("%v is not in 0..%s", at, short(latestFault))
	}
	return at, nil
}

// faultText writes a fault as the flag takes it.
func faultText(f replay.Fault) string {
	return fmt.Sprintf("t=%v backend=%d %v", f.At, f.Backend, f.Kind)
}
