package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Bar shows the progress of a command that works through a list: on a terminal a line that is redrawn, elsewhere (as in
// a pod's log) only the lines that Print writes.
type Bar struct {
	out      io.Writer
	terminal bool
	total    int // entries of the list

	mu    sync.Mutex
	n     int // the current entry, from 0
	name  string
	width int // of the line that is shown
}

// NewBar makes a bar for a list of total entries.
func NewBar(out *os.File, total int) *Bar {
	return &Bar{out: out, terminal: term.IsTerminal(int(out.Fd())), total: total}
}

// Begin starts the n-th entry, counted from 0.
func (b *Bar) Begin(n int, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.name = n, name
}

// Follow redraws the bar as counter grows, until stop is called, which may be called again. verb says what is being
// done: "copying".
func (b *Bar) Follow(verb string, counter *Counter) (stop func()) {
	if !b.terminal {
		return func() {}
	}
	ended := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			b.draw(verb, counter.fraction())
			select {
			case <-ended:
				b.draw(verb, counter.fraction()) // what was done since
				return
			case <-ticker.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		drawing.Wait()
	})
}

const barWidth = 24

func (b *Bar) draw(verb string, fraction float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	filled := int(fraction * barWidth)
	b.replace(fmt.Sprintf("%d/%d %s %s [%s%s] %3.0f%%",
		b.n+1, b.total, b.name, verb, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*fraction))
}

// replace replaces the line that is shown; b.mu must be held.
func (b *Bar) replace(line string) {
	blank := max(0, b.width-len(line))
	b.width = len(line)
	_, _ = fmt.Fprintf(b.out, "\r%s%s", line, strings.Repeat(" ", blank))
}

// clear removes the line that is shown; b.mu must be held.
func (b *Bar) clear() {
	if b.terminal {
		b.replace("")
		_, _ = fmt.Fprint(b.out, "\r")
	}
}

// Print writes a line that stays.
func (b *Bar) Print(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	_, _ = fmt.Fprintf(b.out, "%d/%d %s\n", b.n+1, b.total, line)
}

// Close removes the bar.
func (b *Bar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
}
