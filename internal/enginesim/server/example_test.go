package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/warmroute/warmroute/internal/enginesim/server"
)

// A server inside a test: any OpenAI client can talk to it.
func Example() {
	cfg := server.DefaultConfig()
	cfg.Speed = 100
	srv, err := server.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = srv.Run(ctx) }()
	web := httptest.NewServer(srv)
	defer web.Close()

	body := `{"model":"sim","prompt":"Say something.","max_tokens":5}`
	resp, err := http.Post(web.URL+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}
