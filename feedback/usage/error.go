package usage

import (
	"strconv"

	"github.com/valyala/fastjson"
)

// takeError takes in what status an error stands for: the first that says so.
func (t *Tap) takeError() {
	if t.errStatus != 0 {
		return
	}
	s := &t.scan
	for _, raw := range [][]byte{s.raw(errorSlot), s.raw(innerErrorSlot)} {
		if len(raw) == 0 || raw[0] != '{' {
			continue
		}
		if v, err := t.parser.ParseBytes(raw); err == nil {
			if t.errStatus = statusOf(v); t.errStatus != 0 {
				return
			}
		}
	}
	// A flat object: {"object":"error","message":…,"code":404}.
	if s.is(objectSlot, "error") {
		t.errStatus = status(string(s.raw(codeSlot)))
	}
}

// statusOf is the status that an error object stands for.
func statusOf(v *fastjson.Value) int {
	if code := v.Get("code"); code != nil {
		text := string(code.MarshalTo(nil))
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		if n := max(status(text), meaning(text)); n != 0 {
			return n
		}
	}
	return meaning(string(v.GetStringBytes("type")))
}

// status reads a status of an error, 0 when it is none.
func status(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return 0
}

// meaning is the status that a type or a code in words stands for, of vLLM and of those APIs
// whose dialects there are; 0 when it is none of these.
func meaning(kind string) int {
	switch kind {
	case "InternalServerError", "internal_server_error", "server_error", "api_error":
		return 500
	case "overloaded_error":
		return 529
	case "rate_limit_error", "rate_limit_exceeded":
		return 429
	case "BadRequestError", "Bad Request", "invalid_request_error", "invalid_prompt":
		return 400
	case "NotFoundError", "not_found_error":
		return 404
	}
	return 0
}
