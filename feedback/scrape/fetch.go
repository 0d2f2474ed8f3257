package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/warmroute/warmroute/backends"
)

// maxPage bounds a page, in bytes. vLLM's have about 30 kB an engine.
const maxPage = 8 << 20

// accept asks for the text format that all engines have.
const accept = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, */*;q=0.1"

var errTimeout = errors.New("scrape.timeout has passed")

// ask reads and parses the page of one engine within the time it has. Errors name the
// backend.
func (s *Scraper) ask(ctx context.Context, b *backends.Backend) (*Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, errTimeout)
	defer cancel()
	page, err := s.fetch(ctx, b)
	if err != nil && context.Cause(ctx) == errTimeout { //nolint:errorlint // it is set above
		err = fmt.Errorf("backend %s: no metrics within %v (scrape.timeout)", b.ID, s.config.Timeout)
	}
	return page, err
}

func (s *Scraper) fetch(ctx context.Context, b *backends.Backend) (*Page, error) {
	header := http.Header{"Accept": {accept}}
	if s.config.Header != nil {
		maps.Copy(header, s.config.Header(b))
	}
	resp, err := s.get.Get(ctx, b, s.config.Path, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("backend %s: %s answered with status %d", b.ID, s.config.Path, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, fmt.Errorf("backend %s: read the answer of %s: %w", b.ID, s.config.Path, err)
	}
	if len(body) > maxPage {
		return nil, fmt.Errorf("backend %s: %s answered with more than %d bytes", b.ID, s.config.Path, maxPage)
	}
	page, err := Parse(body, resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("backend %s: %s: %w", b.ID, s.config.Path, err)
	}
	return page, nil
}
