package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
)

// Page is a metrics page that was understood.
type Page struct {
	dialect *dialect
	table   table
}

// maxLines bounds what is parsed of a page, in bytes: 256 engines have less than half
// of it.
const maxLines = 2 << 20

// Parse reads the metrics page of a vLLM or SGLang engine. The error says what else it
// is. contentType may be empty.
func Parse(page []byte, contentType string) (*Page, error) {
	if err := recognise(page, contentType); err != nil {
		return nil, err
	}
	lines, d := selectLines(page)
	if d == nil {
		return nil, nobody(page)
	}
	if len(lines) > maxLines {
		return nil, errors.New("more series on the metrics page than any engine has")
	}
	t, err := parseLines(lines, d)
	if err != nil {
		return nil, err
	}
	return &Page{dialect: d, table: t}, nil
}

// State returns what the page says of one data-parallel rank, or, for
// [backends.NoRank], of the whole engine. It fails for a rank that the page does not
// know. At is left for the caller to set.
func (p *Page) State(rank int) (feedback.EngineState, error) {
	ranks := p.table.ranks()
	v := view{table: p.table, ranks: max(len(ranks), 1)}
	if rank != backends.NoRank {
		v.rank = strconv.Itoa(rank)
		if err := p.knows(v.rank, ranks); err != nil {
			return feedback.EngineState{}, err
		}
	}
	s := state{EngineState: feedback.EngineState{Engine: p.dialect.engine}}
	if started, ok := v.largest(processStart, true); ok {
		s.Started = started
	}
	p.dialect.fill(v, &s)
	return s.EngineState, nil
}

// knows returns an error if a rank is none of those on the page.
func (p *Page) knows(rank string, ranks []string) error {
	if slices.Contains(ranks, rank) {
		return nil
	}
	if len(ranks) == 0 {
		return fmt.Errorf("the metrics page does not tell data-parallel ranks apart (no label %q)", p.dialect.rank)
	}
	return fmt.Errorf("no series with %s=%q on the metrics page, only %.100s", p.dialect.rank, rank, strings.Join(ranks, ", "))
}

// state is an engine state that is being filled in.
type state struct{ feedback.EngineState }

// requests sets a number of requests from a name.
func (s *state) requests(v view, name string, n *int, has *bool) {
	if sum, ok := v.sum(name, nil); ok {
		*n, *has = int(sum), true
	}
}

// usage sets the KV usage from the first of several names that is there.
func (s *state) usage(v view, names ...string) {
	for _, name := range names {
		if len(v.get(name, false)) == 0 {
			continue
		}
		if share, ok := v.largest(name, false); ok && share <= 1 {
			s.KVUsage, s.HasKVUsage = share, true
		}
		return
	}
}

// lookups sets the tokens looked up and found.
func (s *state) lookups(queries, hits float64) {
	s.Queries, s.Hits, s.HasHits = queries, hits, true
}

// recognise returns an error for what is no metrics page at all or not a whole one.
func recognise(page []byte, contentType string) error {
	head := bytes.TrimLeft(page, " \t\r\n\ufeff")
	switch {
	case len(head) == 0:
		return errors.New("the metrics page is empty")
	case bytes.HasPrefix(page, []byte{0x1f, 0x8b}):
		return errors.New("the metrics page is compressed although that was not asked for")
	case strings.Contains(contentType, "protobuf"):
		return errors.New("the metrics page is in the protobuf format although that was not asked for")
	case head[0] == '<':
		return errors.New("HTML, not a metrics page")
	case head[0] == '[' || head[0] == '{':
		return errors.New("JSON, not a metrics page (trtllm-serve has its own at /prometheus/metrics)")
	case page[len(page)-1] != '\n':
		return errors.New("the metrics page is cut short")
	case strings.Contains(contentType, "openmetrics") && !bytes.HasSuffix(page, []byte("# EOF\n")):
		return errors.New("the metrics page is cut short: no # EOF")
	}
	return nil
}

// nobody explains a metrics page on which there is no known engine.
func nobody(page []byte) error {
	for _, other := range []struct{ prefix, name string }{
		{"llamacpp:", "llama.cpp"}, {"trtllm_", "TensorRT-LLM"}, {"tgi_", "TGI"},
	} {
		if bytes.Contains(page, []byte("\n"+other.prefix)) || bytes.HasPrefix(page, []byte(other.prefix)) {
			return fmt.Errorf("a metrics page of %s, whose metrics are not used", other.name)
		}
	}
	return errors.New("no metrics of vLLM or SGLang on the page: is it an engine, and are its statistics on?")
}
