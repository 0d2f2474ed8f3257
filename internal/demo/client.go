package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// model is what the doubles serve.
const model = "sim"

// maxEventBytes bounds one line of a stream, maxErrorBytes what is shown of an
// error.
const (
	maxEventBytes = 1 << 20
	maxErrorBytes = 300
)

// client sends chat requests to the router as any OpenAI client would.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, users int) *client {
	return &client{url: url, http: &http.Client{Transport: &http.Transport{
		MaxIdleConns:        users,
		MaxIdleConnsPerHost: users,
		DisableCompression:  true,
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// chatRequest is a streamed /v1/chat/completions request.
type chatRequest struct {
	Model         string             `json:"model"`
	Messages      []workload.Message `json:"messages"`
	MaxTokens     int                `json:"max_tokens"`
	Stream        bool               `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// chatChunk is what of an event matters here.
type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// answer is what came back for one request.
type answer struct {
	backend, reason string        // as the router's headers say
	ttft            time.Duration // until the first event with content, by the client's clock
	prompt, cached  int           // tokens, as the engine reports them
	text            string
}

// chat sends one request and reads its whole answer.
func (c *client) chat(ctx context.Context, messages []workload.Message, maxTokens int) (answer, error) {
	body := chatRequest{Model: model, Messages: messages, MaxTokens: maxTokens, Stream: true}
	body.StreamOptions.IncludeUsage = true
	data, err := json.Marshal(&body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(data))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		return answer{}, fmt.Errorf("the router answered %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	a := answer{backend: resp.Header.Get("X-Warmroute-Backend"), reason: resp.Header.Get("X-Warmroute-Reason")}
	return a, a.read(resp.Body, start)
}

// read takes in the events of a stream up to its end.
func (a *answer) read(r io.Reader, start time.Time) error {
	var text strings.Builder
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 8<<10), maxEventBytes)
	reported := false
	for lines.Scan() {
		data, isData := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !isData {
			continue
		}
		if string(data) == "[DONE]" {
			a.text = text.String()
			return a.check(reported)
		}
		var chunk chatChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return fmt.Errorf("an event of the stream is not JSON: %w", err)
		}
		if chunk.Error != nil {
			return fmt.Errorf("the stream ended in an error: %s", chunk.Error.Message)
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" && a.ttft == 0 {
				a.ttft = time.Since(start)
			}
			text.WriteString(choice.Delta.Content)
		}
		if chunk.Usage != nil {
			reported = true
			a.prompt = chunk.Usage.PromptTokens
			if chunk.Usage.Details != nil {
				a.cached = chunk.Usage.Details.CachedTokens
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream broke off: %w", err)
	}
	return errors.New("the stream broke off before its end")
}

// check reports what a whole answer lacks.
func (a *answer) check(reported bool) error {
	switch {
	case a.text == "":
		return errors.New("the answer is empty")
	case !reported:
		return errors.New("the answer reports no usage")
	}
	return nil
}
