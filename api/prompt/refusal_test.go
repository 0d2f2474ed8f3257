package prompt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/kvindex"
)

func TestRP11MalformedBodies(t *testing.T) {
	for body, want := range map[string]string{
		"":                                 prompt.CodeInvalidJSON,
		" \n":                              prompt.CodeInvalidJSON,
		`{"model":`:                        prompt.CodeInvalidJSON,
		`["m"]`:                            prompt.CodeInvalidJSON,
		`"m"`:                              prompt.CodeInvalidJSON,
		`{"model":"m"`:                     prompt.CodeInvalidJSON,
		`{"model":"m"}}`:                   prompt.CodeInvalidJSON,
		`{"model":"m",}`:                   prompt.CodeInvalidJSON,
		`{'model':"m"}`:                    prompt.CodeInvalidJSON,
		`{"model":"m" "n":1}`:              prompt.CodeInvalidJSON,
		`{"model":["m"]}`:                  prompt.CodeInvalidType,
		`{"model":1}`:                      prompt.CodeInvalidType,
		strings.Repeat(`{"a":`, 400):       prompt.CodeTooComplex,
		`{"a":` + strings.Repeat("[", 400): prompt.CodeTooComplex,
	} {
		for _, kind := range []prompt.Kind{prompt.Chat, prompt.Completions, prompt.Responses, prompt.Messages, prompt.Embeddings} {
			_, err := prompt.Parse(kind, []byte(body))
			e, ok := errors.AsType[*prompt.Error](err)
			if !ok || e.Code != want || e.Message == "" {
				t.Errorf("Parse(%v, %.40q) = %v, want an error of code %s", kind, body, err, want)
			}
		}
		for _, kind := range []prompt.Kind{prompt.Opaque, prompt.Raw} {
			parse(t, kind, body)
		}
	}
}

func TestErrorsDoNotQuoteThePrompt(t *testing.T) {
	for _, body := range []string{
		`{"messages":[{"content":"secret"}`, `{"messages":[{"content":"secret"}]} secret`, `{"a":secret}`, `{"a":tsecret}`, `["secret"]`,
	} {
		_, err := prompt.Parse(prompt.Chat, []byte(body))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Parse(%s) = %v, want an error without the text", body, err)
		}
	}
}

func TestTooManyValues(t *testing.T) {
	for _, body := range []string{
		`{"messages":[` + strings.Repeat("1,", prompt.MaxValues) + `1]}`,
		`{"tools":[` + strings.Repeat("{},", prompt.MaxValues) + `{}]}`,
	} {
		_, err := prompt.Parse(prompt.Chat, []byte(body))
		if e, ok := errors.AsType[*prompt.Error](err); !ok || e.Code != prompt.CodeTooComplex || !strings.Contains(e.Message, fmt.Sprint(prompt.MaxValues)) {
			t.Errorf("Parse of %d values = %v, want an error that names the limit", prompt.MaxValues+2, err)
		}
	}
	ids := strings.Repeat("1,", prompt.MaxValues)
	if keys := parse(t, prompt.Completions, `{"prompt":[`+ids+`1]}`).Hash(small, kvindex.Unlimited, ""); keys.StreamBytes != 1+4*(prompt.MaxValues+1) {
		t.Errorf("stream of %d ids has %d bytes", prompt.MaxValues+1, keys.StreamBytes)
	}
	text := strings.Repeat("1,", 2*prompt.MaxValues) // values are counted outside strings only
	parse(t, prompt.Chat, `{"messages":[{"role":"user","content":"`+text+`"}]}`)
}
