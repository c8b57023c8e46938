package play

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

// Process is a started binary whose output goes to a file.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error
}

// Start starts a binary in a process group of its own: Ctrl-C reaches its parent alone, which ends it in order.
func Start(log, binary string, arguments ...string) (*Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{name: filepath.Base(binary), log: log, cmd: exec.Command(binary, arguments...),
		done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
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

// WaitReady polls url until it answers 200.
func (p *Process) WaitReady(ctx context.Context, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not ready after %s", p.name, limit))
	defer cancel()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended by itself: %w\n%s", p.name, p.err, p.Tail())
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

// Stop ends the process by SIGTERM, as Kubernetes does, and after limit by SIGKILL. Any exit code but 0 is an error.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM\n%s", p.name, limit, p.Tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.Tail())
	}
	return nil
}

// Tail is the end of what the process said.
func (p *Process) Tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Kill ends the process at once, as the kernel does when memory is short.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended meanwhile
	<-p.done
}
