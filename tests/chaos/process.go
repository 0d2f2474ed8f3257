package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// patience bounds every wait for something that must come about. It is for machines that
// are very busy.
const patience = 30 * time.Second

// process is a program that can be killed, stopped, and started again with the same
// arguments. Its output goes to a file.
type process struct {
	name string
	argv []string
	env  []string // beside this program's
	log  string   // the file

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how
}

func newProcess(dir, name string, argv ...string) *process {
	return &process{name: name, argv: argv, log: filepath.Join(dir, name+".log")}
}

// start starts the process. It must not run.
func (p *process) start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()                             // the process has it
	cmd := exec.Command(p.argv[0], p.argv[1:]...) //nolint:gosec,noctx // the programs under test; ended by kill
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return nil
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: signal %v: %w", p.name, s, err)
	}
	return nil
}

// wait returns how the process ended, and an error of its own when it does not end in time.
func (p *process) wait(within time.Duration) error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-time.After(within):
		return fmt.Errorf("%s still runs after %v", p.name, within)
	}
}

// running reports whether the process was started and has not ended.
func (p *process) running() bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// kill ends the process as a crash would, and waits for its end. It may be called when it
// does not run.
func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := p.wait(patience); err != nil && p.running() {
		return err
	}
	return nil
}

// ports hands out ports of loopback below those that the system gives to connections, so
// that the port of a process that is down for a time is not taken by somebody else.
type ports struct{ next int }

// take returns a port that nobody listens on.
func (p *ports) take() (int, error) {
	for range 2000 {
		port := p.next
		if p.next++; p.next >= 32_000 {
			p.next = 12_000
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // closed at once
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("no port of 127.0.0.1 is free")
}
