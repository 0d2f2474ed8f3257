package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute/backends"
)

// modelsPath is where engines say what they serve.
const modelsPath = "/v1/models"

// maxAnswer bounds an engine's answer, in bytes.
const maxAnswer = 4 << 20

// ask gets the list of one engine within the time it has. Errors name the backend.
func (p *Poller) ask(ctx context.Context, b *backends.Backend) ([]backends.Model, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, errTimeout)
	defer cancel()
	models, err := p.fetch(ctx, b)
	if err != nil && context.Cause(ctx) == errTimeout { //nolint:errorlint // it is set above
		err = fmt.Errorf("no list of models within %v: %w", p.config.Timeout, err)
	}
	return models, err
}

func (p *Poller) fetch(ctx context.Context, b *backends.Backend) ([]backends.Model, error) {
	var header http.Header
	if p.config.Header != nil {
		header = p.config.Header(b)
	}
	resp, err := p.get.Get(ctx, b, modelsPath, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && strings.HasSuffix(b.URL.Path, "/v1") {
		return nil, fmt.Errorf("backend %s: %s/v1/models answered with status 404: the base URL ends before /v1", b.ID, b.URL.Path)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("backend %s: %s answered with status %d", b.ID, modelsPath, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("backend %s: read the answer of %s: %w", b.ID, modelsPath, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("backend %s: %s answered with more than %d bytes", b.ID, modelsPath, maxAnswer)
	}
	models, err := parseModels(body)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %s: %w", b.ID, modelsPath, err)
	}
	return models, nil
}

var errTimeout = errors.New("the time to list models has passed")

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
			ID     string `json:"id"`
			Parent any    `json:"parent"` // of an adapter, the name of the model that it adapts
		}
		if json.Unmarshal(raw, &entry) != nil || entry.ID == "" || seen[entry.ID] {
			continue
		}
		seen[entry.ID] = true
		parent, _ := entry.Parent.(string)
		models = append(models, backends.Model{ID: entry.ID, Adapter: parent != "", JSON: raw})
	}
	return models, nil
}
