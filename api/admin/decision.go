package admin

import (
	"time"

	"github.com/warmroute/warmroute/feedback"
)

// decision is a finished request's last decision as /debug/decisions shows it.
type decision struct {
	Time       time.Time `json:"time"`
	DecisionID string    `json:"decision_id"`
	RequestID  string    `json:"request_id"`
	Route      string    `json:"route"`
	Pool       string    `json:"pool"`
	Model      string    `json:"model"`
	Strategy   string    `json:"strategy"`
	Backend    string    `json:"backend"`
	Reason     string    `json:"reason"`
	Why        string    `json:"why"`
	Overflow   bool      `json:"overflow"`
	Attempts   int       `json:"attempts"`
	InFlight   int       `json:"in_flight"`

	PromptBlocks    int `json:"prompt_blocks"`
	MatchedBlocks   int `json:"matched_blocks"`
	EstimatedPrompt int `json:"estimated_prompt_tokens"`
	PredictedCached int `json:"predicted_cached_tokens"`
	AvailableCached int `json:"available_cached_tokens"`
	// What the engine reported; null where it did not.
	PromptTokens     *int `json:"prompt_tokens"`
	CachedTokens     *int `json:"cached_tokens"`
	CompletionTokens *int `json:"completion_tokens"`

	Status   int      `json:"status"`
	Result   string   `json:"result"`
	Error    string   `json:"error,omitempty"`
	TTFT     *float64 `json:"ttft_s"`
	Duration float64  `json:"duration_s"`
}

func describe(r *feedback.Record) decision {
	d := decision{
		Time: r.Start, DecisionID: r.DecisionID, RequestID: r.RequestID, Route: r.Route,
		Pool: r.Pool, Model: r.Model, Strategy: r.Strategy, Backend: r.Backend, Reason: r.Reason, Why: r.Why,
		Overflow: r.Overflow, Attempts: r.Attempts, InFlight: r.InFlight,
		PromptBlocks: r.PromptBlocks, MatchedBlocks: r.MatchedBlocks,
		EstimatedPrompt: r.PromptTokens, PredictedCached: r.PredictedCached, AvailableCached: r.AvailableCached,
		PromptTokens:     known(r.Usage.Prompt, r.Usage.HasPrompt),
		CachedTokens:     known(r.Usage.Cached, r.Usage.HasCached),
		CompletionTokens: known(r.Usage.Completion, r.Usage.HasCompletion),
		Status:           r.Status, Result: r.Result.String(), Error: r.Err,
		Duration: r.Duration.Seconds(),
	}
	if r.TTFT > 0 {
		d.TTFT = new(r.TTFT.Seconds())
	}
	return d
}
