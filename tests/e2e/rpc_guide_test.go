package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
	"github.com/warmroute/warmroute/internal/gateway"
)

// fenced is a block of code of a page.
var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```")

// TestTheRPCGuide runs every block of docs/guides/rpc.md against a router, where the
// program that it is for is there.
func TestTheRPCGuide(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "rpc.md"))
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	}))
	t.Cleanup(engine.Close)
	data, admin := runGateway(t, engine.URL)
	blocks := fenced.FindAllStringSubmatch(string(page), -1)
	wants := []string{"send it to " + engine.URL, `"accepted":true`, "only_backend", "LEAST_EXPECTED_TTFT"}
	if len(blocks) != len(wants) {
		t.Fatalf("the page has %d blocks, want %d", len(blocks), len(wants))
	}
	for i, block := range blocks {
		code := strings.NewReplacer("http://warmroute:8080", data, "http://warmroute:9090", admin).Replace(block[2])
		t.Run(fmt.Sprintf("%s %d", block[1], i+1), func(t *testing.T) {
			cmd := blockCommand(t, block[1], code)
			cmd.Dir = root
			var out, problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &problems
			if err := cmd.Run(); err != nil || !strings.Contains(strings.ReplaceAll(out.String(), " ", ""), strings.ReplaceAll(wants[i], " ", "")) {
				t.Errorf("%v\n%s%s\nwant %s", err, out.String(), problems.String(), wants[i])
			}
		})
	}
}

// blockCommand is how a block is run. It skips the test where that cannot be.
func blockCommand(t *testing.T, language, code string) *exec.Cmd {
	t.Helper()
	if language == "go" {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), "go", "run", file)
	}
	for tool, sign := range map[string]string{"bash": "", "curl": "curl -sS", "buf": "buf curl"} {
		if _, err := exec.LookPath(tool); err != nil && strings.Contains(code, sign) {
			t.Skipf("%s is not here", tool)
		}
	}
	return exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", code)
}

// runGateway runs a router in front of one engine and returns the URLs of its ports once it
// knows what the engine serves.
func runGateway(t *testing.T, engine string) (data, admin string) {
	t.Helper()
	c, _, err := config.FromBackends([]string{engine})
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
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
			t.Error(err)
		}
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(g.Router().Models()) == 0 {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(errors.New("the router does not learn what the engine serves"))
		}
	}
	return "http://" + g.Addr().String(), "http://" + g.AdminAddr().String()
}
