package sigv4

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// canonicalHead returns the canonical form of a request as far as the hash of its body,
// with the headers that are named, separated by semicolons.
func canonicalHead(r *http.Request, signedHeaders string) (string, error) {
	names := strings.Split(signedHeaders, ";")
	if err := checkSigned(r.Header, names); err != nil {
		return "", err
	}
	query, err := canonicalQuery(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(s string) {
		b.WriteString(s)
		b.WriteByte('\n')
	}
	line(r.Method)
	line(canonicalPath(r.URL))
	line(query)
	for _, name := range names {
		line(name + ":" + canonicalValue(r, name))
	}
	line("")
	line(signedHeaders)
	return b.String(), nil
}

// checkSigned checks that the names are in order, and that none is missing.
func checkSigned(h http.Header, names []string) error {
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		return malformed("SignedHeaders are not in order")
	}
	if !slices.Contains(names, "host") {
		return malformed("SignedHeaders lack host")
	}
	for name := range h {
		lower := strings.ToLower(name)
		if _, signed := slices.BinarySearch(names, lower); strings.HasPrefix(lower, "x-amz-") && !signed {
			return malformed("SignedHeaders lack %s", lower)
		}
	}
	return nil
}

// canonicalPath is the path as it was sent, encoded once more.
func canonicalPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return encode(path, true)
}

// canonicalQuery is a query in the order of its encoded names and values.
func canonicalQuery(raw string) (string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", malformed("the query cannot be read")
	}
	var pairs []string
	for name, all := range values {
		for _, value := range all {
			pairs = append(pairs, encode(name, false)+"="+encode(value, false))
		}
	}
	slices.SortFunc(pairs, func(a, b string) int {
		nameA, valueA, _ := strings.Cut(a, "=")
		nameB, valueB, _ := strings.Cut(b, "=")
		if c := strings.Compare(nameA, nameB); c != 0 {
			return c
		}
		return strings.Compare(valueA, valueB)
	})
	return strings.Join(pairs, "&"), nil
}

// canonicalValue is the value of a header, its lines joined and its spaces reduced.
func canonicalValue(r *http.Request, name string) string {
	values := r.Header[http.CanonicalHeaderKey(name)]
	switch {
	case name == "host":
		values = []string{r.Host}
	case name == "content-length" && len(values) == 0 && r.ContentLength >= 0:
		values = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	lines := make([]string, len(values))
	for i, value := range values {
		lines[i] = strings.Join(strings.Fields(value), " ")
	}
	return strings.Join(lines, ",")
}

const hexDigits = "0123456789ABCDEF"

// encode percent-encodes all but the characters that RFC 3986 calls unreserved, and
// slashes where they are to stay.
func encode(s string, slashes bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && slashes:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}
