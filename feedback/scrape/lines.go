package scrape

import (
	"bytes"
	"slices"
	"strings"
)

// dialect is how one kind of engine names things.
type dialect struct {
	// engine is the name for [feedback.EngineState].
	engine string
	// prefix begins the names of all its series.
	prefix string
	// names are the series that are read, without prefix and without "_total".
	names []string
	// rank is the label that tells data-parallel engines apart.
	rank string
	// copies are labels of processes that say the same thing again.
	copies []string
	// fill sets what the series say.
	fill func(view, *state)
}

// processStart is the one series that all engines have by the same name.
const processStart = "process_start_time_seconds"

// total ends the names of counters.
const total = "_total"

// wants reports whether series of a name are read.
func (d *dialect) wants(name string) bool {
	name, ours := strings.CutPrefix(name, d.prefix)
	return ours && slices.Contains(d.names, strings.TrimSuffix(name, total))
}

// selectLines copies the lines of a page that hold series worth reading and says whose
// page it is, nil when nobody's. A page has a thousand lines more; they are not parsed,
// and what is wrong with them is of no interest here.
func selectLines(page []byte) (lines []byte, of *dialect) {
	known := dialects()
	found := make([]bool, len(known))
	for line := range bytes.Lines(page) {
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 {
			continue
		}
		name := nameOf(line)
		wanted := line[0] != '#' && string(name) == processStart
		for i, d := range known {
			if bytes.HasPrefix(name, []byte(d.prefix)) {
				found[i] = true
				wanted = line[0] != '#' && d.wants(string(name))
			}
		}
		if wanted {
			lines = append(append(lines, withoutExemplar(line)...), '\n')
		}
	}
	if i := slices.Index(found, true); i >= 0 {
		return lines, known[i]
	}
	return lines, nil
}

// nameOf returns the name of the series in a line, or that which a comment describes.
// vLLM 0.6 describes its series long before it has any.
func nameOf(line []byte) []byte {
	for _, about := range []string{"# HELP ", "# TYPE "} {
		line = bytes.TrimPrefix(line, []byte(about))
	}
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		return line[:end]
	}
	return line
}

// withoutExemplar cuts off what OpenMetrics allows after a value.
func withoutExemplar(line []byte) []byte {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '#' && !quoted:
			return bytes.TrimRight(line[:i], " \t")
		}
	}
	return line
}
