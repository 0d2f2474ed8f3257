package backends_test

import (
	"strings"
	"testing"

	"github.com/warmroute/warmroute/backends"
)

func TestParseURL(t *testing.T) {
	for _, tc := range []struct{ raw, url, id string }{
		{"http://b1:8000", "http://b1:8000", "b1:8000"},
		{"http://b1:8000/", "http://b1:8000", "b1:8000"},       // DI-07
		{"HTTP://B1:8000", "http://b1:8000", "b1:8000"},        // DI-10
		{" http://b1:8000// ", "http://b1:8000", "b1:8000"},    //
		{"http://b1", "http://b1", "b1:80"},                    //
		{"https://b1", "https://b1", "b1:443"},                 //
		{"https://B1/Base/", "https://b1/Base", "b1:443/base"}, //
		{"http://127.0.0.1:8001", "http://127.0.0.1:8001", "127.0.0.1:8001"},
		{"http://[::1]:8001/v", "http://[::1]:8001/v", "[::1]:8001/v"},
	} {
		u, id, err := backends.ParseURL(tc.raw)
		if err != nil {
			t.Errorf("ParseURL(%q): %v", tc.raw, err)
			continue
		}
		if u.String() != tc.url || id != tc.id {
			t.Errorf("ParseURL(%q): got %s, %s, want %s, %s", tc.raw, u, id, tc.url, tc.id)
		}
	}
}

func TestParseURLErrors(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{"", "want http://"},
		{"b1:8000", "want http://"},
		{"ftp://b1", "want http://"},
		{"http://", "no host"},
		{"http://:8000", "no host"},
		{"http://b1:0", "1..65535"},
		{"http://b1:99999", "1..65535"},
		{"http://b1:80x", "does not parse"},
		{"http://b1?x=1", "no query"},
		{"http://[::%25\xd6]", "printable ASCII"},
		{"http://büro:8000", "printable ASCII"},
		{"http://b1#3", "no query and no fragment"},
		{"http://user:sesame@b1", "credentials"},
		{"http://user:sesame@b1:port", "does not parse"},
	} {
		_, _, err := backends.ParseURL(tc.raw)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseURL(%q): got %v, want an error with %q", tc.raw, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("ParseURL(%q): the error shows the password: %v", tc.raw, err) // AU-05
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("http://b1:8000/path")
	f.Add("https://[::1%25eth0]:8443")
	f.Add("http://[::%25\xd6]")
	f.Fuzz(func(t *testing.T, raw string) {
		u, id, err := backends.ParseURL(raw)
		if err != nil {
			return
		}
		again, sameID, err := backends.ParseURL(u.String())
		if err != nil || sameID != id || again.String() != u.String() {
			t.Errorf("ParseURL(%q) = %s, %s; parsed again: %v, %s, %v", raw, u, id, again, sameID, err)
		}
		if id != strings.ToLower(id) {
			t.Errorf("ParseURL(%q): id %q is not in lower case", raw, id)
		}
	})
}
