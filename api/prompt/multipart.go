package prompt

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// The bounds of a multipart form.
const (
	maxParts      = 1024
	maxFieldBytes = 1024
)

// MultipartModel returns the fields model and stream of the multipart form body,
// wherever they stand between the files, of which it reads nothing. The last of
// several counts. model is empty if there is none. The error is an [*Error].
//
// A form that breaks off behind its model is left for the engine to judge.
func MultipartModel(contentType string, body []byte) (model string, stream bool, err error) {
	boundary := boundaryOf(contentType)
	if boundary == "" {
		return "", false, formError("content type must be multipart/form-data with a boundary")
	}
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxParts {
		part, err := form.NextRawPart()
		if err == io.EOF || err != nil && model != "" { //nolint:errorlint // a wrapped EOF is a form that breaks off
			return model, stream, nil
		}
		if err != nil {
			return "", false, formError("multipart form is malformed or breaks off")
		}
		if part.FileName() != "" {
			continue
		}
		switch part.FormName() {
		case "model":
			value, ok := fieldValue(part)
			if !ok {
				return "", false, &Error{
					Message: fmt.Sprintf("must be the name of a model, at most %d bytes", maxFieldBytes),
					Param:   "model", Code: CodeInvalidForm,
				}
			}
			model = string(value)
		case "stream":
			value, ok := fieldValue(part)
			stream = ok && affirms(bytes.TrimSpace(value))
		}
	}
	return "", false, formError(fmt.Sprintf("multipart form has too many parts, want at most %d", maxParts))
}

func formError(message string) error { return &Error{Message: message, Code: CodeInvalidForm} }

// fieldValue reads a form field. It is not ok if it is too long or breaks off.
func fieldValue(part io.Reader) (value []byte, ok bool) {
	value, err := io.ReadAll(io.LimitReader(part, maxFieldBytes+1))
	return value, err == nil && len(value) <= maxFieldBytes
}

// boundaryOf returns the boundary of a multipart content type, empty if it has
// none. Clients leave boundaries unquoted that would need quotes: those are taken
// up to the next semicolon.
func boundaryOf(contentType string) string {
	if mediaType, params, err := mime.ParseMediaType(contentType); err == nil {
		if !strings.HasPrefix(mediaType, "multipart/") {
			return ""
		}
		return params["boundary"]
	}
	mediaType, params, _ := strings.Cut(contentType, ";")
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(mediaType)), "multipart/") {
		return ""
	}
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "boundary") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
