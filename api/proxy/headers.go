package proxy

import (
	"net"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends/transport"
)

// The headers of this router's own.
const (
	headerBackend   = "X-Warmroute-Backend"
	headerDecision  = "X-Warmroute-Decision-Id"
	headerReason    = "X-Warmroute-Reason"
	headerPredicted = "X-Warmroute-Predicted-Cached-Tokens"
	headerAttempts  = "X-Warmroute-Attempts"

	headerRequestID   = "X-Request-Id"
	headerTraceparent = "Traceparent"
	headerTenant      = "X-Amzn-Sagemaker-Prefix-Aware-Id"
	headerAttributes  = "X-Amzn-Sagemaker-Custom-Attributes"
	headerInference   = "X-Amzn-Sagemaker-Inference-Id"
	headerSession     = "X-Amzn-Sagemaker-Session-Id"
	headerAdapter     = "X-Amzn-Sagemaker-Adapter-Identifier"

	headerSessionBegun = "X-Amzn-Sagemaker-New-Session-Id"
	headerSessionEnded = "X-Amzn-Sagemaker-Closed-Session-Id"
)

// hopByHop are the headers that belong to one connection (RFC 9110, 7.6.1), with
// those that old clients send.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// credentials are the headers by which clients show who they are.
var credentials = [...]string{"Authorization", "X-Api-Key", "Api-Key", "Cookie"}

// removeHopByHop removes what belongs to the connection that h came by, the headers
// that Connection names included.
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// mentions reports whether a header that is a list of tokens names token.
func mentions(lines []string, token string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(part), token) {
				return true
			}
		}
	}
	return false
}

// outgoing returns the headers of a request as an engine gets them.
func (x *exchange) outgoing() http.Header {
	in := x.r.Header
	h := make(http.Header, len(in)+6)
	trailers := mentions(in["Te"], "trailers")
	for name, values := range in {
		if !staysHere(name) {
			h[name] = values
		}
	}
	removeHopByHop(h)
	if trailers { // the one word of TE that concerns the answer, not the connection
		h["Te"] = []string{"trailers"}
	}
	delete(h, "Host")
	delete(h, "Expect") // answered here, with the body
	delete(h, "Content-Length")
	if x.decoded {
		delete(h, "Content-Encoding")
	}
	// The answer is read as it goes by, so it must not be compressed.
	h["Accept-Encoding"] = []string{"identity"}
	x.keepCredentials(h)
	if x.p.options.ForwardRank == nil || !x.p.options.ForwardRank(x.target.Pool.Name()) {
		delete(h, transport.RankHeader)
	}
	h[headerRequestID] = []string{x.record.RequestID}
	forwardedFor(h, x.r)
	if x.adapter != "" {
		h[headerAdapter] = []string{x.target.Model} // what an alias stands for
	}
	if x.call.Outgoing != nil {
		x.call.Outgoing(h, in)
	}
	return h
}

// staysHere reports whether a header is for this router and no engine: its own, those by
// which AWS's clients sign and count their attempts, and those that SageMaker routes by.
func staysHere(name string) bool {
	switch {
	case strings.HasPrefix(name, "X-Warmroute-"), strings.HasPrefix(name, "X-Amz-"), strings.HasPrefix(name, "Amz-Sdk-"):
		return true
	case strings.HasPrefix(name, "X-Amzn-Sagemaker-"):
		return name != headerAttributes && name != headerInference && name != headerSession
	}
	return false
}

// keepCredentials decides which of the client's credentials go on, or what goes in their
// place. A signature for this router's address is of no use to anybody behind it.
func (x *exchange) keepCredentials(h http.Header) {
	if x.p.options.UpstreamKey != nil {
		if key := x.p.options.UpstreamKey(x.target.Pool.Name()); key != "" {
			for _, name := range credentials {
				delete(h, name)
			}
			h["Authorization"] = []string{"Bearer " + key}
			return
		}
	}
	if !x.p.options.ForwardCredentials {
		for _, name := range credentials {
			delete(h, name)
		}
		return
	}
	for _, value := range h["Authorization"] {
		if strings.HasPrefix(value, "AWS4-") {
			delete(h, "Authorization")
			return
		}
	}
}

// forwardedFor adds the client to X-Forwarded-For, and says how it came unless a
// proxy in front has said so already.
func forwardedFor(h http.Header, r *http.Request) {
	if ip, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if before := h["X-Forwarded-For"]; len(before) > 0 {
			ip = strings.Join(before, ", ") + ", " + ip
		}
		h["X-Forwarded-For"] = []string{ip}
	}
	if len(h["X-Forwarded-Proto"]) == 0 {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		h["X-Forwarded-Proto"] = []string{proto}
	}
	if len(h["X-Forwarded-Host"]) == 0 && r.Host != "" {
		h["X-Forwarded-Host"] = []string{r.Host}
	}
}

// removeFraming removes from trailers what belongs to a connection or frames a message
// (RFC 9110, 6.5.1), which would mislead whoever merges them into the headers, and what
// only this router says.
func removeFraming(trailer http.Header) {
	removeHopByHop(trailer)
	for name := range trailer {
		if name == "Host" || name == headerRequestID || strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "X-Warmroute-") {
			delete(trailer, name)
		}
	}
}

// incoming sets the headers of an engine's answer, and announces its trailers. What the
// router has said by itself stands: an engine may be behind another router of its kind.
func incoming(h http.Header, resp *http.Response) {
	from := resp.Header
	removeHopByHop(from)
	for name, values := range from {
		if _, said := h[name]; !said && !strings.HasPrefix(name, "X-Warmroute-") {
			h[name] = values
		}
	}
	removeFraming(resp.Trailer)
	for name := range resp.Trailer {
		h.Add("Trailer", name)
	}
}

// trailers sets the trailers of an answer that was read to its end. Those that were
// announced have their names, the others a prefix that tells net/http what they are.
func trailers(h http.Header, resp *http.Response, announced int) {
	removeFraming(resp.Trailer)
	prefix := ""
	if len(resp.Trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range resp.Trailer {
		h[prefix+name] = values
	}
}

// traceID returns the trace id of a traceparent header, empty if it is not one.
func traceID(traceparent string) string {
	// version "-" trace-id "-" parent-id "-" flags
	if len(traceparent) < 55 || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-' {
		return ""
	}
	id := traceparent[3:35]
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return id
}

// plainSegment reports whether s is one segment of a path and stays one whoever decodes
// and tidies the path: an engine has more paths than those that are routed.
func plainSegment(s string) bool {
	return intake.Printable(s, maxStoredID) && s != "." && s != ".." && !strings.ContainsAny(s, `/\?#%;`)
}
