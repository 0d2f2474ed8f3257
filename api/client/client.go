package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute/feedback/usage"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/proto/warmroute/v1/warmroutev1connect"
)

// reportTime is how long a report may take. One that fails is not repeated: the lease
// ends the decision.
const reportTime = 5 * time.Second

// DefaultLease is how long a decision is kept without a report unless [WithLease] says
// otherwise.
const DefaultLease = 120 * time.Second

// Client asks one router. Its methods may be called at the same time.
type Client struct {
	base    string
	carrier *http.Client
	rpc     warmroutev1connect.RoutingServiceClient
	lease   time.Duration
	asked   usage.Stances[string] // which backends, by id, refuse to report usage on streams
	reports sync.WaitGroup        // that are under way
}

// Option changes how a client works.
type Option interface{ apply(*settings) }

type settings struct {
	carrier *http.Client
	lease   time.Duration
	key     string
	connect []connect.ClientOption
}

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// WithHTTPClient makes the client reach the router by c, for TLS, time limits and the
// like. Default: a client of its own with the settings of [http.DefaultTransport].
func WithHTTPClient(c *http.Client) Option { return option(func(s *settings) { s.carrier = c }) }

// WithLease sets how long the router keeps a decision without hearing of it, 1 s–1 h, with a
// key at most 10 min. Default [DefaultLease].
func WithLease(lease time.Duration) Option { return option(func(s *settings) { s.lease = lease }) }

// WithKey shows an API key, where the router has keys.
func WithKey(key string) Option { return option(func(s *settings) { s.key = key }) }

// WithGRPC speaks gRPC instead of Connect. The HTTP client must be able to HTTP/2.
func WithGRPC() Option {
	return option(func(s *settings) { s.connect = append(s.connect, connect.WithGRPC()) })
}

// New returns a client of the router at a base URL, such as http://warmroute:8080.
func New(baseURL string, options ...Option) *Client {
	s := settings{lease: DefaultLease}
	for _, o := range options {
		o.apply(&s)
	}
	if s.carrier == nil {
		s.carrier = &http.Client{Transport: http.DefaultTransport}
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			s.carrier.Transport = t.Clone() // or what replaces the default would be asked to route itself
		}
	}
	if s.key != "" {
		s.connect = append(s.connect, connect.WithInterceptors(showing(s.key)))
	}
	base := strings.TrimRight(baseURL, "/")
	return &Client{base: base, carrier: s.carrier, lease: s.lease, rpc: warmroutev1connect.NewRoutingServiceClient(s.carrier, base, s.connect...)}
}

// showing shows a key with every call.
func showing(key string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+key)
			return next(ctx, r)
		}
	}
}

// Close waits for the reports that are under way.
func (c *Client) Close() {
	c.reports.Wait()
	c.carrier.CloseIdleConnections()
}

// Request is what is to be sent to an engine.
type Request struct {
	// Path is the endpoint's path, such as /v1/chat/completions, and Body the request as
	// the engine will get it.
	Path string
	Body []byte
	// ContentType is needed only for multipart forms.
	ContentType string
	// TenantID separates equal prompts of different tenants. Empty: nothing does.
	TenantID string
	// ID is the caller's name for the request, in the router's records. Empty: it makes one.
	ID string
	// Tried are the ids of backends that failed the request already.
	Tried []string
}

// Target is a backend as a caller reaches it.
type Target struct {
	// Backend is its id, URL its base URL, to which the endpoint's path is added, and
	// Headers what the request must carry.
	Backend, URL string
	Headers      map[string]string
}

// Route asks where a request should go. The decision must be given its outcome
// ([Decision.Done]). [connect.CodeOf] says what kind of error it is.
func (c *Client) Route(ctx context.Context, r Request) (*Decision, error) {
	out, err := c.rpc.Route(ctx, &v1.RouteRequest{
		Prompt: &v1.Prompt{Content: &v1.Prompt_Original{
			Original: &v1.OriginalRequest{Path: r.Path, Body: r.Body, ContentType: r.ContentType},
		}},
		TenantId: r.TenantID, RequestId: r.ID, TriedBackends: r.Tried, Lease: durationpb.New(c.lease),
	})
	if err != nil {
		return nil, fmt.Errorf("ask %s for a backend: %w", c.base, err)
	}
	d := &Decision{
		ID: out.GetDecisionId(), Target: target(out.GetTarget()),
		Pool: out.GetPool(), Model: out.GetModel(), RewriteModel: out.GetRewriteModel(), AskForUsage: out.GetAskForUsage(),
		Strategy: out.GetStrategy(), Reason: out.GetReason(), Explanation: out.GetExplanation(),
		PromptTokens: int(out.GetPromptTokens()), PredictedCachedTokens: int(out.GetPredictedCachedTokens()),
		client: c, made: time.Now(),
	}
	for _, t := range out.GetAlternatives() {
		d.Alternatives = append(d.Alternatives, target(t))
	}
	return d, nil
}

func target(t *v1.Target) Target {
	return Target{Backend: t.GetBackend(), URL: t.GetUrl(), Headers: t.GetHeaders()}
}
