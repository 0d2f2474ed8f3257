package backends

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Spec describes a backend as configuration or discovery names it.
type Spec struct {
	// URL is the base URL of the engine: http or https, host, optional port and
	// path.
	URL string
	// Rank is the data-parallel rank behind the URL, sent to the engine as
	// X-data-parallel-rank; [NoRank] when the URL is one cache.
	Rank int
	// Weight is the backend's share of load relative to others; 0 means 1.
	Weight float64
	// ConcurrencyThreshold overrides the pool's; 0 means the pool's.
	ConcurrencyThreshold int
	// Unready keeps new requests away, whatever probes find: discovery says that the
	// backend is starting, ending or gone.
	Unready bool
	// Instance tells engines apart that have the same URL one after the other: the uid of
	// a pod. Empty where it is not known.
	Instance string
}

// ID is the id of the backend, of whose URL the identity is known ([ParseURL]).
func (s Spec) ID(identity string) string {
	if s.Rank == NoRank {
		return identity
	}
	return identity + "#" + strconv.Itoa(s.Rank)
}

// NoRank is the rank of a backend that is not one of several data-parallel ranks.
const NoRank = -1

// ParseURL checks the base URL of an engine and returns it in canonical form
// (lower-case scheme and host, explicit port left out of the URL only when it was,
// no trailing slash) together with the identity it gives: host:port[/path], lower
// case, the port always present.
func ParseURL(raw string) (*url.URL, string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		// The text of url.Error repeats the URL, which may hold a password.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, "", fmt.Errorf("backend URL does not parse: %w", err)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	u.Host = strings.ToLower(u.Host)
	shown := u.Redacted()
	var port string
	switch u.Scheme {
	case "http":
		port = "80"
	case "https":
		port = "443"
	default:
		return nil, "", fmt.Errorf("backend URL %q: want http://host:port or https://host:port", shown)
	}
	switch {
	case u.Hostname() == "":
		return nil, "", fmt.Errorf("backend URL %q has no host", shown)
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, "", fmt.Errorf("backend URL %q: a host is printable ASCII (internationalised names in their xn-- form)", shown)
	case u.User != nil:
		return nil, "", fmt.Errorf("backend URL %q: put credentials into the configuration, not into the URL", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, "", fmt.Errorf("backend URL %q: a base URL has no query and no fragment", shown)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, "", fmt.Errorf("backend URL %q: port %q is not in 1..65535", shown, p)
		}
		port = p
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u, host + ":" + port + strings.ToLower(u.Path), nil
}
