package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a block of code of a page.
var block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```")

// TestTheSecurityGuide runs every block of docs/guides/security.md, in its order and in one directory.
func TestTheSecurityGuide(t *testing.T) {
	for _, tool := range []string{"bash", "openssl", "curl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the page uses %s: %v", tool, err)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			io.WriteString(w, `{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}`)
			return
		}
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	}))
	t.Cleanup(engine.Close)
	data, admin := mustPort(t), mustPort(t)
	here := strings.NewReplacer(`":8443"`, `"`+data+`"`, `":9443"`, `"`+admin+`"`, "localhost:8443", data, "localhost:9443", admin, "http://gpu-1:8000", engine.URL)
	dir := t.TempDir()
	wants := [][]string{
		{},
		{}, // keys and certificates
		{"warmroute.yaml is valid: listens on " + data + " (TLS, keys: web), admin on " + admin + " (TLS, client certificates, keys: on-call)"},
		nil, // serve
		{"chat.completion"},
		{"missing_credentials"},
		{"m → 127.0.0.1:", "pool chat, PREFIX_AWARE"},
		{"127.0.0.1:", "LEAST_EXPECTED_TTFT"},
		{`"status": "ready"`, "the admin port wants a client certificate"},
		{},
	}
	n := 0
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		code := here.Replace(b[2])
		if b[1] == "yaml" {
			if name, text, _ := strings.Cut(code, "\n"); name == "# warmroute.yaml" {
				if err := os.WriteFile(filepath.Join(dir, "warmroute.yaml"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if n++; n > len(wants) {
			t.Fatalf("the page has more than %d blocks that are run", len(wants))
		}
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", code)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if wants[n-1] == nil {
			serveInBackground(t, cmd, &out, "https://"+admin+"/readyz")
			continue
		}
		if err := cmd.Run(); err != nil {
			t.Fatalf("block %d: %v\n%s%s", n, err, code, &out)
		}
		for _, want := range wants[n-1] {
			if !strings.Contains(out.String(), want) {
				t.Errorf("block %d:\n%s%s\nwant %s", n, code, &out, want)
			}
		}
	}
	if n != len(wants) {
		t.Errorf("the page has %d blocks that are run, want %d", n, len(wants))
	}
	// The certificate that the last block made is shown in the end.
	for end := time.Now().Add(time.Minute); time.Until(notAfter(t, data)) < 45*24*time.Hour; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the new certificate is not shown")
		}
	}
}

func mustPort(t *testing.T) string {
	t.Helper()
	addr, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// notAfter is until when the certificate of a port is valid.
func notAfter(t *testing.T, addr string) time.Time {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].NotAfter
}

// serveInBackground starts a command that serves until the test ends, and waits until it is ready.
func serveInBackground(t *testing.T, cmd *exec.Cmd, out *bytes.Buffer, ready string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := <-ended; err != nil {
			t.Errorf("serve: %v\n%s", err, out)
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := client.Get(ready)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("it is never ready")
}
