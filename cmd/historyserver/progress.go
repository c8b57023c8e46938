package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// counter counts from several goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int) { c.n.Add(int64(n)) }

// progress shows how far a command is: a line that is drawn again and again on a terminal; elsewhere, as in a pod's log, only what say says.
type progress struct {
	out      io.Writer
	terminal bool
	total    int // things to do

	mu   sync.Mutex
	n    int // the one that is done now, from 0
	name string
	wide int // runes of the line that is shown
}

func newProgress(out *os.File, total int) *progress {
	info, err := out.Stat()
	return &progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, total: total}
}

// begin tells which thing is begun.
func (p *progress) begin(n int, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.name = n, name
}

// follow draws how far the thing is, as state tells, until the function it gives is called.
func (p *progress) follow(state func() (what string, done, total int64)) (stop func()) {
	if !p.terminal {
		return func() {}
	}
	ended := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for {
			p.draw(state())
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return func() {
		close(ended)
		drawing.Wait()
	}
}

const barWidth = 24

func (p *progress) draw(what string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := 0.0
	if total > 0 {
		share = min(1, float64(done)/float64(total))
	}
	filled := int(share * barWidth)
	p.line(fmt.Sprintf("%d/%d %s %s [%s%s] %3.0f%%", p.n+1, p.total, p.name, what, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*share))
}

// line replaces the line that is shown; p.mu must be held.
func (p *progress) line(s string) {
	blank := max(0, p.wide-len(s))
	p.wide = len(s)
	_, _ = fmt.Fprintf(p.out, "\r%s%s", s, strings.Repeat(" ", blank))
}

// say writes a line that stays.
func (p *progress) say(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		p.line("")
		_, _ = fmt.Fprint(p.out, "\r")
	}
	_, _ = fmt.Fprintf(p.out, "%d/%d %s\n", p.n+1, p.total, s)
}

// end takes the line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		p.line("")
		_, _ = fmt.Fprint(p.out, "\r")
	}
}
