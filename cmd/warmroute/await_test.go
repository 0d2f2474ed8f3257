package main

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// awaitURL asks a URL until the answer has a status and some text, for 20 seconds:
// await 200 http://127.0.0.1:9090/readyz ready. Any certificate will do. With files of its own
// certificate and key, it shows that, and the key of WARMROUTE_ADMIN_KEY.
func awaitURL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) == 4 || len(args) > 5 {
		ts.Fatalf("usage: await STATUS URL [TEXT [CERT KEY]]")
	}
	last := ""
	trust := &tls.Config{InsecureSkipVerify: true}
	req, err := http.NewRequest(http.MethodGet, args[1], http.NoBody)
	ts.Check(err)
	if len(args) == 5 {
		own, err := tls.LoadX509KeyPair(ts.MkAbs(args[3]), ts.MkAbs(args[4]))
		ts.Check(err)
		trust.Certificates = []tls.Certificate{own}
		req.Header.Set("Authorization", "Bearer "+ts.Getenv("WARMROUTE_ADMIN_KEY"))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	defer client.CloseIdleConnections()
	for range 400 {
		resp, err := client.Do(req)
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
