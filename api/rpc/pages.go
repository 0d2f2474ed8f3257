package rpc

import (
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// The errors of calls that a browser sends for the wrong page.
var (
	errOtherSite   = errors.New("a page of another site must not call this: it has another Origin than the Host that was asked (a proxy in front must pass Host on, or be reached over HTTPS)")
	errNoProtocol  = errors.New("a page must send Connect-Protocol-Version: 1")
	protocolHeader = http.CanonicalHeaderKey("Connect-Protocol-Version")
)

// ownPages lets browsers call h only for pages that come from the same origin. Whoever may
// reach the admin port may look at pages of others too, and none of those may change how
// requests are routed. Programs that are no browsers, which send neither Origin nor
// Sec-Fetch-Site, are let through.
func ownPages(h http.Handler) http.Handler {
	var protection http.CrossOriginProtection
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case protection.Check(r) != nil || ofOtherSite(r):
			_ = refusals.Write(w, r, connect.NewError(connect.CodePermissionDenied, errOtherSite))
		case r.Method == http.MethodPost && byBrowser(r) && !needsPreflight(r):
			_ = refusals.Write(w, r, connect.NewError(connect.CodePermissionDenied, errNoProtocol))
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// ofOtherSite reports whether a browser says that another site's page sends this, also to read:
// some calls that change nothing take long.
func ofOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	return false
}

func byBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// needsPreflight reports whether a request is one that browsers send to other sites only
// after having asked, which a form, say, cannot make.
func needsPreflight(r *http.Request) bool {
	return r.Header.Get(protocolHeader) != "" || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
