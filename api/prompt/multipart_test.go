package prompt_test

import (
	"bytes"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/api/prompt"
)

// form builds a form of the fields, in order, name and value in turn. The name file
// is a file of that many kilobytes of the letter.
func form(tb testing.TB, boundary string, fields ...string) (contentType string, body []byte) {
	tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if boundary != "" {
		if err := w.SetBoundary(boundary); err != nil {
			tb.Fatal(err)
		}
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != "file" {
			if err := w.WriteField(fields[i], fields[i+1]); err != nil {
				tb.Fatal(err)
			}
			continue
		}
		part, err := w.CreateFormFile("file", "a.wav")
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := part.Write([]byte(fields[i+1])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

func TestRP12MultipartModel(t *testing.T) {
	audio := strings.Repeat("RIFF\r\n--model\x00", 60_000) // 840 KB
	for name, c := range map[string]struct {
		boundary string
		fields   []string
		model    string
		stream   bool
	}{
		"model last":    {"", []string{"file", audio, "language", "no", "model", "whisper"}, "whisper", false},
		"model first":   {"", []string{"model", "whisper", "stream", "true", "file", audio}, "whisper", true},
		"odd boundary":  {"a=b:c?/('+_,-.)", []string{"file", audio, "stream", "1", "model", "w h é"}, "w h é", true},
		"twice":         {"", []string{"model", "a", "stream", "true", "model", "b", "stream", "false"}, "b", false},
		"none":          {"", []string{"file", audio}, "", false},
		"empty":         {"", nil, "", false},
		"only in files": {"", []string{"file", `form-data; name="model"`}, "", false},
	} {
		contentType, body := form(t, c.boundary, c.fields...)
		if c.boundary != "" { // as clients write it
			contentType = "Multipart/Form-Data; boundary=" + c.boundary
		}
		model, stream, err := prompt.MultipartModel(contentType, body)
		if err != nil || model != c.model || stream != c.stream {
			t.Errorf("%s: MultipartModel = %q, %v, %v; want %q, %v", name, model, stream, err, c.model, c.stream)
		}
	}
}

func TestMultipartModelRefuses(t *testing.T) {
	contentType, body := form(t, "xyz", "file", "abc", "model", "m")
	_, longName := form(t, "xyz", "model", strings.Repeat("m", 2000))
	_, many := form(t, "xyz", strings.Split(strings.Repeat("a b ", 1100), " ")[:2200]...)
	for name, c := range map[string]struct {
		contentType string
		body        []byte
	}{
		"json":           {"application/json", body},
		"no boundary":    {"multipart/form-data", body},
		"no type":        {"", body},
		"other boundary": {"multipart/form-data; boundary=other", body},
		"cut off":        {contentType, body[:125]},
		"empty":          {contentType, nil},
		"long name":      {contentType, longName},
		"many parts":     {contentType, many},
	} {
		if model, _, err := prompt.MultipartModel(c.contentType, c.body); err == nil {
			t.Errorf("%s: MultipartModel = %q, want an error", name, model)
		}
	}
}
