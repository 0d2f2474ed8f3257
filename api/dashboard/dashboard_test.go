package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func newPage(t *testing.T) *Handler {
	t.Helper()
	h, err := New(`v1 <b>"x"</b>`)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Every file is served with its type, under a policy that lets nothing else in, and is asked
// for again only where it has changed.
func TestFiles(t *testing.T) {
	h := newPage(t)
	types := map[string]string{
		"/": "text/html; charset=utf-8", "/assets/app.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8",
		"/assets/icon.svg": "image/svg+xml", "/assets/vendor/uplot/LICENSE": "text/plain; charset=utf-8",
		"/assets/vendor/uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8", "/assets/vendor/uplot/uPlot.min.css": "text/css; charset=utf-8",
	}
	for at := range types {
		if _, ok := h.files[at]; !ok {
			t.Errorf("%s is missing", at)
		}
	}
	for at, f := range h.files {
		w := get(t, h, at)
		if w.Code != http.StatusOK || w.Body.Len() != len(f.content) || !Serves(at) {
			t.Errorf("%s: status %d, %d bytes", at, w.Code, w.Body.Len())
		}
		if want, ok := types[at]; ok && w.Header().Get("Content-Type") != want {
			t.Errorf("%s: type %q", at, w.Header().Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s: %q", at, name, got)
			}
		}
		etag := w.Header().Get("ETag")
		if len(etag) < 20 {
			t.Errorf("%s: ETag %q", at, etag)
		}
		if again := get(t, h, at, "If-None-Match", etag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s, asked again: status %d, %d bytes", at, again.Code, again.Body.Len())
		}
		if other := get(t, h, at, "If-None-Match", `"another"`); other.Code != http.StatusOK {
			t.Errorf("%s, of another version: status %d", at, other.Code)
		}
	}
	other, err := New("v2")
	if err != nil || other.files["/"].etag == h.files["/"].etag {
		t.Errorf("another version has the same ETag (%v)", err)
	}
}

// The policy allows nothing inline and nobody else's files.
func TestPolicy(t *testing.T) {
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	for _, not := range []string{"unsafe", "*", "http:", "https:", "data:"} {
		if strings.Contains(policy, not) {
			t.Errorf("the policy has %s", not)
		}
	}
}

var (
	reference = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	imported  = regexp.MustCompile(`from "([^"]*)"`)
	// intoHTML are the ways to make HTML of text.
	intoHTML = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function`)
	inline   = regexp.MustCompile(`<style|\sstyle=|\son[a-z]+="|<script>|javascript:`)
)

// What the page loads is there and named relative to it, so that it works below any path, and
// comes from nowhere else.
func TestReferences(t *testing.T) {
	h := newPage(t)
	text := string(h.files["/"].content)
	if !strings.Contains(text, "v1 &lt;b&gt;&#34;x&#34;&lt;/b&gt;") || strings.Contains(text, versionMark) {
		t.Error("the version is not in the page as text")
	}
	if found := inline.FindString(text); found != "" {
		t.Errorf("the page has %q, which its policy forbids", found)
	}
	loaded := map[string]bool{"/": true, Prefix + "vendor/uplot/LICENSE": true}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		switch at := m[1]; {
		case strings.HasPrefix(at, "#"):
		case strings.Contains(at, ":") || strings.HasPrefix(at, "/"):
			t.Errorf("%q is not relative", at)
		case strings.HasPrefix("/"+at, Prefix):
			if _, ok := h.files["/"+at]; !ok {
				t.Errorf("%q is missing", at)
			}
			loaded["/"+at] = true
		}
	}
	for at, f := range h.files {
		if path.Ext(at) != ".js" || strings.Contains(at, "/vendor/") {
			continue
		}
		if found := intoHTML.Find(f.content); found != nil {
			t.Errorf("%s has %s: put text in as text", at, found)
		}
		for _, m := range imported.FindAllStringSubmatch(string(f.content), -1) {
			to := path.Join(path.Dir(at), m[1])
			if _, ok := h.files[to]; !ok || !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s imports %q, which is not there", at, m[1])
			}
			loaded[to] = true
		}
	}
	for at := range h.files {
		if !loaded[at] {
			t.Errorf("%s is embedded, and nobody loads it", at)
		}
	}
}

// All of it is loaded in less than 300 KB, with nothing compressed.
func TestWeight(t *testing.T) {
	const budget = 300_000
	sum := 0
	for _, f := range newPage(t).files {
		sum += len(f.content)
	}
	if sum > budget {
		t.Errorf("%d bytes, the budget is %d", sum, budget)
	}
	t.Logf("%d bytes", sum)
}

// The page is only read, and has no other files.
func TestMethodsAndPaths(t *testing.T) {
	h := newPage(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d, allowed %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: status %d, %d bytes", w.Code, w.Body.Len())
	}
	for _, at := range []string{"/assets/", "/assets/index.html", "/assets/../dashboard.go", "/assets/%2e%2e/doc.go", "/assets/nothing.js", "/metrics"} {
		if w := get(t, h, at); w.Code != http.StatusNotFound || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: status %d", at, w.Code)
		}
	}
	if Serves("/metrics") || Serves("/debug/state") || Serves("/assetsx") {
		t.Error("paths of others are taken for the page's")
	}
	if _, err := fs.Stat(embedded, "static/vendor/uplot/LICENSE"); err != nil {
		t.Error(err)
	}
}
