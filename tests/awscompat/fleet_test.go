package awscompat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/enginesim/server"
	"github.com/warmroute/warmroute/internal/gateway"
)

// model is what all engines serve.
const model = "m"

// endpoint is what all routers answer for, as variant AllTraffic.
const endpoint = "my-endpoint"

// thinking is how long scripted engines take before they answer. AWS's client for Go closes
// the body of its request when the answer begins, and when it has not yet looked for the
// end of that body then, it takes the early end for a failure and cuts the connection. No
// engine is that fast.
const thinking = 20 * time.Millisecond

// double starts an engine double, in about real time, and returns its URL.
func double(t *testing.T) string {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Model, cfg.Speed = []string{model}, 2
	engine, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	web := httptest.NewServer(engine)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		cancel()
		running.Wait()
	})
	return web.URL
}

// scripted starts an engine that does what a test says with every invocation.
func scripted(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // net/http sees a client leave only once the body was read
		time.Sleep(thinking)
		h(w, r)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// router is a router that a test talks to.
type router struct {
	*gateway.Gateway

	url string
}

// start runs a router over engines. more are further keys of its pool, top those of the
// file, and others further pools.
func start(t *testing.T, urls []string, more, top string, others ...string) *router {
	t.Helper()
	var backends strings.Builder
	for _, url := range urls {
		fmt.Fprintf(&backends, "      - {url: %q}\n", url)
	}
	text := fmt.Sprintf(`version: 1
listen: "127.0.0.1:0"
admin_listen: "127.0.0.1:0"
%spools:
  - name: chat
    models: [%s]
    sagemaker_endpoints: [%s]
    variant: AllTraffic
%s    backends:
%s%s`, top, model, endpoint, more, backends.String(), strings.Join(others, ""))
	c, _, err := config.Parse("router.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	g, err := gateway.New(gateway.Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the router: %v", err)
		}
		for _, p := range g.Router().Pools() {
			for _, b := range p.Backends() {
				if n := b.OwnInFlight(); n != 0 {
					t.Errorf("backend %s has %d in flight at the end", b.ID, n)
				}
			}
		}
	})
	return &router{g, "http://" + g.Addr().String()}
}

// The credentials of all clients: those of AWS's own examples of signatures.
const (
	accessKeyID = "AKIDEXAMPLE"
	secretKey   = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// client is AWS's client. Only its endpoint URL is not what it is with SageMaker.
func (r *router) client(change ...func(*sagemakerruntime.Options)) *sagemakerruntime.Client {
	return sagemakerruntime.New(sagemakerruntime.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(r.url),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKeyID, secretKey, ""),
	}, change...)
}

// chat is the body of a chat request.
func chat(text string, tokens int, more string) []byte {
	return fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}],"max_tokens":%d%s}`, text, tokens, more)
}

// prompt is a text of some hundred tokens.
func prompt(name string) string {
	return "These are the notes of " + name + "." + strings.Repeat(" The pump in the hall was serviced, its pressure set to three bar.", 60)
}
