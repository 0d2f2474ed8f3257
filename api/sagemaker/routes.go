package sagemaker

import (
	"net/http"

	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/feedback/usage"
	"github.com/warmroute/warmroute/router"
)

// The paths. The engines' own are those of the last two.
const (
	pathInvoke    = "/endpoints/{endpoint}/invocations"
	pathStream    = "/endpoints/{endpoint}/invocations-response-stream"
	pathAsync     = "/endpoints/{endpoint}/async-invocations"
	pathChat      = "/endpoints/{endpoint}/openai/v1/chat/completions"
	pathComponent = "/endpoints/{endpoint}/inference-components/{component}/openai/v1/chat/completions"

	engineInvoke = "/invocations"
	engineChat   = "/v1/chat/completions"
)

// settingBody is the setting that bounds bodies here.
const settingBody = "limits.sagemaker_body_bytes"

// Options are what the surface works with. All but Variants are needed.
type Options struct {
	// Proxy carries the requests.
	Proxy *proxy.Proxy
	// Variants are the pools behind endpoints.
	Variants []Variant
	// BodyBytes is the largest request body, after decompression.
	BodyBytes int64
	// Random returns uniformly random values. It may be called at the same time.
	Random func() uint64
}

// Register adds the endpoints of this dialect to mux.
func Register(mux *http.ServeMux, o Options) {
	p, all := o.Proxy, newEndpoints(o)
	for _, call := range calls(all, o.BodyBytes) {
		mux.Handle("POST "+call.Route, p.Handler(call))
		mux.Handle(call.Route, p.Answer(call.Route, call.Dialect, otherMethod))
	}
	mux.Handle("POST "+pathAsync, p.Answer(pathAsync, runtime{}, noAsync))
	mux.Handle(pathAsync, p.Answer(pathAsync, runtime{}, otherMethod))
	mux.Handle("/endpoints/", NotFound(p))
}

// NotFound returns what answers paths below /endpoints that nobody has.
func NotFound(p *proxy.Proxy) http.Handler { return p.Answer("other", runtime{}, unknownPath) }

// calls are the endpoints that are forwarded, all of them POST.
func calls(all *endpoints, bodyBytes int64) []proxy.Call {
	native := proxy.Call{
		Dialect: runtime{}, Kind: prompt.Raw, Format: usage.OpenAI, InjectUsage: true, KeyIsTenant: true,
		Body: proxy.BodyLimit{Bytes: bodyBytes, Setting: settingBody},
	}
	container := native
	container.Route, container.ModelOptional, container.Enter = engineInvoke, true, all.container

	invoke := native
	invoke.Route, invoke.Path = pathInvoke, engineInvoke
	invoke.Enter, invoke.WrapRefusals = all.enter, true

	stream := invoke
	stream.Route, stream.Dialect, stream.Framing = pathStream, eventStream{}, frames{}
	stream.Streams, stream.Outgoing = true, acceptOfStream

	chat := native
	chat.Route, chat.Path, chat.Kind = pathChat, engineChat, prompt.Chat
	chat.Dialect, chat.Enter = compatible{}, all.enter
	component := chat
	component.Route = pathComponent
	return []proxy.Call{container, invoke, stream, chat, component}
}

// enter looks at the headers of a request, and chooses its pool.
func (all *endpoints) enter(r *http.Request, visitor *proxy.Visitor, answer http.Header) (*router.Pool, *proxy.Error) {
	name(answer)
	if err := checkHeaders(r.Header); err != nil {
		return nil, err
	}
	v, err := all.choose(choiceOf(r), r, visitor)
	if err != nil {
		return nil, err
	}
	answer.Set(headerInvoked, v.Name)
	return v.Pool, nil
}

// container looks at the headers of a request for whatever serves the model.
func (all *endpoints) container(r *http.Request, _ *proxy.Visitor, answer http.Header) (*router.Pool, *proxy.Error) {
	name(answer)
	return nil, checkHeaders(r.Header)
}

func otherMethod(w http.ResponseWriter, r *http.Request) *proxy.Error {
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "OPTIONS, POST")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &proxy.Error{
		Status: http.StatusMethodNotAllowed, Code: proxy.CodeMethodNotAllowed,
		Allow:   []string{http.MethodOptions, http.MethodPost},
		Message: "this path does not have that method: it has OPTIONS, POST",
	}
}

func unknownPath(http.ResponseWriter, *http.Request) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotFound, Code: proxy.CodeNotFound,
		Message: "there is nothing at this path: an endpoint has /invocations, /invocations-response-stream and /openai/v1/chat/completions",
	}
}

func noAsync(http.ResponseWriter, *http.Request) *proxy.Error {
	return &proxy.Error{
		Status: http.StatusNotImplemented, Code: proxy.CodeNotImplemented,
		Message: "asynchronous invocations are not supported: use /invocations",
	}
}
