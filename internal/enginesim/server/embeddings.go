package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/warmroute/warmroute/internal/enginesim"
)

// Sizes of an embedding.
const (
	defaultDimensions = 64
	maxDimensions     = 8192
)

// embeddingRequest is what of a /v1/embeddings body matters here.
type embeddingRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Dimensions *int            `json:"dimensions"`
	Encoding   string          `json:"encoding_format"`
	Truncate   *int            `json:"truncate_prompt_tokens"`
}

type embeddingResponse struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Data    []embedding `json:"data"`
	Usage   usage       `json:"usage"`
}

type embedding struct {
	Index     int    `json:"index"`
	Object    string `json:"object"`
	Embedding any    `json:"embedding"`
}

// handleEmbeddings computes each input as a prompt without an answer. The body
// never reports cached tokens.
func (s *Server) handleEmbeddings(w http.ResponseWriter, r *http.Request) *apiError {
	var req embeddingRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	model, err := s.checkModel(req.Model)
	if err != nil {
		return err
	}
	dimensions := defaultDimensions
	if req.Dimensions != nil {
		if dimensions = *req.Dimensions; dimensions < 1 || dimensions > maxDimensions {
			return badRequest("dimensions must be between 1 and 8192.", "dimensions")
		}
	}
	if req.Encoding != "" && req.Encoding != "float" && req.Encoding != "base64" {
		return badRequest("encoding_format must be float or base64.", "encoding_format")
	}
	inputs, err := parsePrompts(req.Input, "input")
	if err != nil {
		return err
	}
	p := &plan{id: "embd-" + s.requestID(r), model: model, n: 1, pool: true, rank: -1}
	for _, in := range inputs {
		p.prompts = append(p.prompts, truncate(in.tokens, req.Truncate))
	}
	gen, err := s.start(r.Context(), p)
	if err != nil {
		return err
	}
	if _, waitErr := s.finishAll(r.Context(), gen); waitErr != nil {
		return ended(waitErr)
	}
	resp := embeddingResponse{ID: gen.id, Object: "list", Created: gen.created, Model: model}
	resp.Usage = usage{PromptTokens: gen.promptTokens(), TotalTokens: gen.promptTokens()}
	for i, tokens := range p.prompts {
		resp.Data = append(resp.Data, embedding{
			Index: i, Object: "embedding", Embedding: vector(tokens, dimensions, req.Encoding),
		})
	}
	writeJSON(w, http.StatusOK, resp)
	return nil
}

// vector returns a unit vector that depends on nothing but the tokens.
func vector(tokens []enginesim.Token, dimensions int, encoding string) any {
	rng := rand.New(rand.NewPCG(enginesim.HashTokens(0, tokens), uint64(dimensions)))
	values := make([]float32, dimensions)
	var norm float64
	for i := range values {
		values[i] = float32(rng.NormFloat64())
		norm += float64(values[i]) * float64(values[i])
	}
	scale := float32(1 / math.Sqrt(norm))
	for i := range values {
		values[i] *= scale
	}
	if encoding != "base64" {
		return values
	}
	data := make([]byte, 0, 4*dimensions)
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(data)
}

// tokenizeRequest is the body of /tokenize: a text prompt or a chat.
type tokenizeRequest struct {
	Prompt           *string `json:"prompt"`
	AddSpecialTokens *bool   `json:"add_special_tokens"`
	chatRequest
}

type tokenizeResponse struct {
	Count       int               `json:"count"`
	MaxModelLen int               `json:"max_model_len"`
	Tokens      []enginesim.Token `json:"tokens"`
	TokenStrs   []string          `json:"token_strs"`
}

// handleTokenize serves POST /tokenize.
func (s *Server) handleTokenize(w http.ResponseWriter, r *http.Request) {
	var req tokenizeRequest
	tokens, err := s.tokenize(w, r, &req)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, tokenizeResponse{Count: len(tokens), MaxModelLen: s.maxTokens, Tokens: tokens})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, req *tokenizeRequest) ([]enginesim.Token, *apiError) {
	if err := decode(w, r, req); err != nil {
		return nil, err
	}
	if _, err := s.checkModel(req.Model); err != nil {
		return nil, err
	}
	if req.Prompt != nil {
		tokens := textPrompt(*req.Prompt).tokens
		if req.AddSpecialTokens != nil && !*req.AddSpecialTokens {
			tokens = tokens[1:]
		}
		return tokens, nil
	}
	c, err := req.conversation()
	if err != nil {
		return nil, err
	}
	return c.render(), nil
}
