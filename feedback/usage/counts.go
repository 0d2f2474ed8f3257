package usage

import (
	"math"

	"github.com/valyala/fastjson"

	"github.com/warmroute/warmroute/feedback"
)

// count is a number of tokens that may not have been reported.
type count struct {
	n  int
	is bool
}

// counts is what was reported so far, as the engine named it. A later report takes
// the place of an earlier one, field by field: engines that report with every chunk
// leave the details to the last.
type counts struct {
	prompt     count // prompt_tokens, input_tokens
	completion count // completion_tokens, output_tokens
	cached     count // cached_tokens, cache_read_input_tokens
	written    count // cache_creation_input_tokens
	local      count // local_cached_tokens

	processed      count // timings.prompt_n of llama.cpp: prompt tokens not from the cache
	timingsCached  count // timings.cache_n
	timingsWritten count // timings.predicted_n

	cachedNull bool
	nonsense   bool
}

// count takes a usage object.
func (t *Tap) count(raw []byte) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	v, err := t.parser.ParseBytes(raw)
	if err != nil {
		t.counts.nonsense = t.counts.nonsense || t.scan.complete
		return
	}
	o, err := v.Object()
	if err != nil {
		t.counts.nonsense = true
		return
	}
	c := &t.counts
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			c.take(&c.prompt, v)
		case "completion_tokens", "output_tokens":
			c.take(&c.completion, v)
		case "prompt_tokens_details", "input_tokens_details":
			c.details(v)
		case "cache_read_input_tokens":
			c.takeCached(v)
		case "cache_creation_input_tokens":
			c.take(&c.written, v)
		}
	})
}

// details takes the object that says where the prompt's tokens came from.
func (c *counts) details(v *fastjson.Value) {
	switch v.Type() {
	case fastjson.TypeNull:
		c.takeCached(v)
		return
	case fastjson.TypeObject:
	default:
		c.nonsense = true
		return
	}
	o := v.GetObject()
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "cached_tokens":
			c.takeCached(v)
		case "local_cached_tokens":
			c.take(&c.local, v)
		}
	})
}

func (c *counts) takeCached(v *fastjson.Value) {
	if v.Type() == fastjson.TypeNull {
		c.cachedNull = true
		return
	}
	c.take(&c.cached, v)
}

// take takes one number. null is not reported; what cannot be a number of tokens is
// left out.
func (c *counts) take(to *count, v *fastjson.Value) {
	if v.Type() == fastjson.TypeNull {
		return
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0 && f <= math.MaxInt32) || f != math.Trunc(f) {
		c.nonsense = true
		return
	}
	*to = count{n: int(f), is: true}
}

// countTimings takes llama.cpp's timings, which say what its usage may not.
func (t *Tap) countTimings(raw []byte) {
	if len(raw) == 0 {
		return
	}
	v, err := t.parser.ParseBytes(raw)
	if err != nil || v.Type() != fastjson.TypeObject {
		return
	}
	c := &t.counts
	o := v.GetObject()
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch string(key) {
		case "prompt_n":
			c.take(&c.processed, v)
		case "cache_n":
			c.take(&c.timingsCached, v)
		case "predicted_n":
			c.take(&c.timingsWritten, v)
		}
	})
}

// usage puts the counts together and makes them consistent.
func (c *counts) usage(format Format) feedback.Usage {
	prompt, completion, cached := c.prompt, c.completion, c.cached
	if c.timingsCached.is {
		if !cached.is {
			cached = c.timingsCached
		}
		if !prompt.is && c.processed.is {
			prompt = count{n: c.processed.n + c.timingsCached.n, is: true}
		}
		if !completion.is {
			completion = c.timingsWritten
		}
	}
	if format == Anthropic && prompt.is {
		// input_tokens are those that came from nowhere else.
		prompt.n += cached.n + c.written.n
	}
	u := feedback.Usage{
		Prompt: prompt.n, HasPrompt: prompt.is,
		Completion: completion.n, HasCompletion: completion.is,
		Cached: cached.n, HasCached: cached.is,
		Local: c.local.n, HasLocal: c.local.is,
		CachedNull: c.cachedNull && !cached.is,
		Nonsense:   c.nonsense,
	}
	if u.HasPrompt && u.Cached > u.Prompt {
		u.Cached, u.Nonsense = u.Prompt, true
	}
	if u.HasCached && u.Local > u.Cached {
		u.Local, u.Nonsense = u.Cached, true
	}
	return u
}
