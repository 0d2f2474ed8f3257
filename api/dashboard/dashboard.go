package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var embedded embed.FS

// Prefix is the path below which everything but the page itself is served.
const Prefix = "/assets/"

// page is the file that is served at /.
const page = "index.html"

// versionMark is what stands in the page for the program's version.
const versionMark = "{{version}}"

// policy lets the page load, run and ask nothing but what comes from its own origin, and be
// shown in no other page. Trusted Types forbid to make HTML of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one file as it is served.
type file struct {
	content     []byte
	contentType string
	etag        string
}

// Handler serves the page. It is safe for concurrent use.
type Handler struct {
	files map[string]file // by path
}

var _ http.Handler = (*Handler)(nil)

// New returns the handler of the page at / and of its files below [Prefix]. The page shows
// the version. The error is of a program that was built wrong.
func New(version string) (*Handler, error) {
	h := &Handler{files: make(map[string]file)}
	err := fs.WalkDir(embedded, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "static/")
		at := Prefix + name
		if name == page {
			at = "/"
			content = bytes.ReplaceAll(content, []byte(versionMark), []byte(html.EscapeString(version)))
		}
		sum := sha256.Sum256(content)
		h.files[at] = file{content, contentType(name), fmt.Sprintf("%q", hex.EncodeToString(sum[:12]))}
		return nil
	})
	return h, err
}

// contentType says what a file is, without asking the machine, whose table may be odd.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// Serves reports whether a path is one of the page's, or may be. None of its files says
// anything of the router.
func Serves(path string) bool { return path == "/" || strings.HasPrefix(path, Prefix) }

// ServeHTTP implements [http.Handler]. Browsers keep files and ask each time whether they
// are still the same, so that after an update no old file meets a new one.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, r.Method+" is not allowed here: the page is only read; AdminService takes changes", http.StatusMethodNotAllowed)
		return
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	header.Set("Content-Type", f.contentType)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
