package sdkcompat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// model is what both engines serve.
const model = "m"

// running is the fleet that all tests share.
var running *fleet

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sdkcompat")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	f := &fleet{}
	defer f.stop()
	if err := f.start(ctx, dir); err != nil {
		fmt.Fprintf(os.Stderr, "start the fleet: %v\n%s", err, f.logs())
		return 1
	}
	running = f
	code := m.Run()
	if code != 0 {
		fmt.Fprint(os.Stderr, f.logs())
	}
	return code
}

// A fleet is two engine doubles and a router.
type fleet struct {
	engines   []string // base URLs
	router    string
	admin     string
	processes []*process
}

func (f *fleet) start(ctx context.Context, dir string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), "./cmd/warmroute", "./cmd/enginesim")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	for i := range 2 {
		p, err := launch(fmt.Sprintf("enginesim %d", i), filepath.Join(dir, "enginesim"),
			"--listen", "127.0.0.1:0", "--model", model, "--speed", "50")
		if err != nil {
			return err
		}
		f.processes = append(f.processes, p)
		url, err := p.url(ctx)
		if err != nil {
			return err
		}
		f.engines = append(f.engines, url)
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	admin, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	args := []string{"serve", "--listen", listen, "--admin-listen", admin}
	for _, url := range f.engines {
		args = append(args, "--backend", url)
	}
	p, err := launch("warmroute", filepath.Join(dir, "warmroute"), args...)
	if err != nil {
		return err
	}
	f.processes = append(f.processes, p)
	f.router, f.admin = "http://"+listen, "http://"+admin
	return f.awaitReady(ctx, p)
}

// awaitReady polls until the router is ready and has learned from its backends which model they serve.
func (f *fleet) awaitReady(ctx context.Context, router *process) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		ready, err := fetch(ctx, f.admin+"/readyz")
		if err == nil {
			if _, err = fetch(ctx, f.router+"/v1/models"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the router does not become ready: %w (readyz: %q)", err, ready)
		case <-router.done:
			return errors.New("the router has exited")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (f *fleet) stop() {
	for _, p := range f.processes {
		p.stop()
	}
}

func (f *fleet) logs() string {
	var b strings.Builder
	for _, p := range f.processes {
		fmt.Fprintf(&b, "--- output of %s\n%s", p.name, p.output())
	}
	return b.String()
}

// inFlight adds up what the router counts as sent and not finished.
func (f *fleet) inFlight(ctx context.Context) (int, error) {
	text, err := fetch(ctx, f.admin+"/debug/state")
	if err != nil {
		return 0, err
	}
	var state struct {
		Pools []struct {
			Name     string
			Backends []struct {
				ID       string
				InFlight *int `json:"in_flight"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return 0, fmt.Errorf("/debug/state: %w", err)
	}
	sum, backends := 0, 0
	for _, pool := range state.Pools {
		for _, b := range pool.Backends {
			if b.InFlight == nil {
				return 0, fmt.Errorf("/debug/state: backend %s has no in_flight", b.ID)
			}
			sum += *b.InFlight
			backends++
		}
	}
	if backends != len(f.engines) {
		return 0, fmt.Errorf("/debug/state lists %d backends, want %d: %s", backends, len(f.engines), text)
	}
	return sum, nil
}

// engineLoad adds up the requests that the engines themselves are working on.
func (f *fleet) engineLoad(ctx context.Context) (int, error) {
	sum := 0
	for _, url := range f.engines {
		text, err := fetch(ctx, url+"/load")
		if err != nil {
			return 0, err
		}
		var load struct {
			ServerLoad *int `json:"server_load"`
		}
		if err := json.Unmarshal([]byte(text), &load); err != nil || load.ServerLoad == nil {
			return 0, fmt.Errorf("/load answered %q (%w)", text, err)
		}
		sum += *load.ServerLoad
	}
	return sum, nil
}

// client is an official client of the router that shows every failure: it does not retry.
func client() openai.Client {
	return openai.NewClient(
		option.WithBaseURL(running.router+"/v1"),
		option.WithAPIKey("unused"),
		option.WithMaxRetries(0),
	)
}

// A process is one started binary and what it has printed.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
	urls chan string   // the first URL it prints

	mu    sync.Mutex
	lines []string
}

var printedURL = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

func launch(name, program string, args ...string) (*process, error) {
	r, w := io.Pipe()
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), urls: make(chan string, 1)}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		err := p.cmd.Wait()
		w.CloseWithError(fmt.Errorf("%s exited: %w", name, errors.Join(err, io.EOF)))
		close(p.done)
	}()
	go p.read(r)
	return p, nil
}

func (p *process) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
		if url := printedURL.FindString(lines.Text()); url != "" {
			select {
			case p.urls <- url:
			default:
			}
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(append(p.lines, ""), "\n")
}

// url waits for the address that the process prints when it listens.
func (p *process) url(ctx context.Context) (string, error) {
	select {
	case url := <-p.urls:
		return url, nil
	case <-p.done:
		return "", fmt.Errorf("%s has exited without printing where it listens", p.name)
	case <-ctx.Done():
		return "", fmt.Errorf("%s does not print where it listens: %w", p.name, ctx.Err())
	}
}

// stop asks the process to end, and kills it when it does not.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// freeAddress returns a loopback address that nobody listened on a moment ago.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// fetch returns the body of a GET that succeeds.
func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return string(body), fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return string(body), nil
}
