package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
)

func ExampleTransport_Do() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s as rank %s", r.URL.Path, r.Header.Get("X-Data-Parallel-Rank"))
	}))
	registry, err := backends.NewRegistry(backends.DefaultEjection())
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := registry.Set([]backends.Spec{{URL: engine.URL + "/engine/", Rank: 1}}); err != nil {
		fmt.Println(err)
		return
	}
	backend := registry.Snapshot()[0]

	t := transport.New(transport.DefaultConfig())
	defer t.Close()
	request := transport.Request{Method: http.MethodPost, Path: "/v1/completions", Body: []byte(`{"prompt":"hi"}`)}
	resp, failure := t.Do(context.Background(), backend, request)
	if failure != nil {
		fmt.Println(failure)
		return
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(string(answer), err)

	engine.Close()
	_, failure = t.Do(context.Background(), backend, request)
	fmt.Println(failure.Kind.Retryable())
	// Output:
	// /engine/v1/completions as rank 1 <nil>
	// true
}
