package main

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// awaitURL asks a URL until the answer has a status and some text, for 20 seconds:
// await 200 http://127.0.0.1:9090/readyz ready. Any certificate will do.
func awaitURL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await STATUS URL [TEXT]")
	}
	last := ""
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for range 400 {
		resp, err := client.Get(args[1])
		if err == nil {
			var body strings.Builder
			_ = resp.Write(&body)
			resp.Body.Close()
			last = body.String()
			if strings.HasPrefix(resp.Status, args[0]) && (len(args) < 3 || strings.Contains(last, args[2])) {
				return
			}
		} else {
			last = err.Error()
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s never said %s: %s", args[1], args[0], last)
}
