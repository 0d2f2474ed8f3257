package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/warmroute/warmroute/backends"
)

// modelsPath is where engines say what they serve.
const modelsPath = "/v1/models"

// maxAnswer bounds an engine's answer, in bytes.
const maxAnswer = 4 << 20

// ask gets the list of one engine.
func (p *Poller) ask(ctx context.Context, b *backends.Backend) (models []backends.Model, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, errTimeout)
	defer cancel()
	defer func() {
		if err != nil && context.Cause(ctx) == errTimeout {
			err = fmt.Errorf("no list of models within %v (health.timeout): %w", p.config.Timeout, err)
		}
	}()
	var header http.Header
	if p.config.Header != nil {
		header = p.config.Header(b)
	}
	resp, err := p.get.Get(ctx, b, modelsPath, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered with status %d", modelsPath, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", modelsPath, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%s answered with more than %d bytes", modelsPath, maxAnswer)
	}
	models, err = parseModels(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", modelsPath, err)
	}
	return models, nil
}

var errTimeout = errors.New("health.timeout has passed")

// parseModels reads a list of models and keeps each entry as the engine wrote it.
// Entries without an id are left out; of several with one id the first counts.
func parseModels(body []byte) ([]backends.Model, error) {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("not a list of models: %w", err)
	}
	if list.Data == nil {
		return nil, errors.New(`not a list of models: no "data"`)
	}
	models := make([]backends.Model, 0, len(list.Data))
	seen := make(map[string]bool, len(list.Data))
	for _, raw := range list.Data {
		var entry struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw, &entry) != nil || entry.ID == "" || seen[entry.ID] {
			continue
		}
		seen[entry.ID] = true
		models = append(models, backends.Model{ID: entry.ID, JSON: raw})
	}
	return models, nil
}
