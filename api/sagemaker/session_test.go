package sagemaker_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/router"
)

// TestSessionThatEndsWithAnError: what an engine says of a session counts with every status.
func TestSessionThatEndsWithAnError(t *testing.T) {
	var urls []string
	for i := range 3 {
		urls = append(urls, newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if id := r.Header.Get("X-Amzn-SageMaker-Session-Id"); id == "NEW_SESSION" {
				w.Header().Set("X-Amzn-SageMaker-New-Session-Id", fmt.Sprintf("s%d; Expires=%s", i, "2030-01-01T00:00:00Z"))
			} else if id != "" {
				w.Header().Set("X-Amzn-SageMaker-Closed-Session-Id", id)
				w.WriteHeader(http.StatusBadRequest)
			}
			io.WriteString(w, `{}`)
		}).url)
	}
	f := start(t, urls)
	const header = "X-Amzn-SageMaker-Session-Id"
	begun := f.send(invoke, chat("hello"), header, "NEW_SESSION")
	id, _, _ := strings.Cut(begun.Header.Get("X-Amzn-SageMaker-New-Session-Id"), ";")
	key := router.NewPinKey("session", id, "")
	pool := f.router.Pools()[0]
	if at := pool.Pinned(key, time.Now()); at == "" || at != begun.Header.Get("X-Warmroute-Backend") {
		t.Fatalf("session %q is on %q", id, at)
	}
	f.send(invoke, chat("hello"), header, id).problem(t, http.StatusFailedDependency, "ModelError")
	if at := pool.Pinned(key, time.Now()); at != "" {
		t.Errorf("the session has ended, and is on %q", at)
	}
	f.idle()
}
