package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a started binary whose output goes to a file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error
}

func start(log, binary string, arguments ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: filepath.Base(binary), log: log, cmd: exec.Command(binary, arguments...),
		done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// A group of its own: Ctrl-C reaches the demo alone, which then ends its processes in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w: build it with `make build`", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// waitReady polls url until it answers 200.
func (p *process) waitReady(ctx context.Context, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not ready after %s", p.name, limit))
	defer cancel()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended by itself: %w\n%s", p.name, p.err, p.tail())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// stop ends the process by SIGTERM, as Kubernetes does, and after limit by SIGKILL. Any exit code but 0 is an error.
func (p *process) stop(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended meanwhile
		<-p.done
		return fmt.Errorf("%s did not end within %s of SIGTERM\n%s", p.name, limit, p.tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// tail is the end of what the process said.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
