// Package progress counts how much of a long task is done, and draws it on a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/rayhistory/historyserver/internal/human"
)

// Counter counts objects and their stored bytes. Totals grow while the work is found. Safe for concurrent use.
type Counter struct {
	ObjectsTotal, ObjectsDone atomic.Int64
	BytesTotal, BytesDone     atomic.Int64
}

// Expect adds to what there is to do.
func (c *Counter) Expect(objects int, bytes int64) {
	c.ObjectsTotal.Add(int64(objects))
	c.BytesTotal.Add(bytes)
}

// Did adds to what is done.
func (c *Counter) Did(objects int, bytes int64) {
	c.ObjectsDone.Add(int64(objects))
	c.BytesDone.Add(bytes)
}

// fraction is how much is done, 0 to 1: of the bytes if they are counted, else of the objects.
func (c *Counter) fraction() float64 {
	done, total := c.BytesDone.Load(), c.BytesTotal.Load()
	if total == 0 {
		done, total = c.ObjectsDone.Load(), c.ObjectsTotal.Load()
	}
	if total == 0 {
		return 0
	}
	return min(1, float64(done)/float64(total))
}

// Bar shows the progress of a command that works through a list: on a terminal a line that is redrawn, elsewhere (as in
// a pod's log) only the lines that Print writes.
type Bar struct {
	out   io.Writer
	width func() int // of the terminal, in columns; nil: it is none
	total int        // entries of the list

	mu   sync.Mutex
	n    int // the current entry, from 0
	name string
}

// NewBar makes a bar for a list of total entries, drawn on out if that is a terminal. Otherwise it has no width, and
// nothing is drawn.
func NewBar(out *os.File, total int) *Bar {
	b := &Bar{out: out, total: total}
	if fd := int(out.Fd()); term.IsTerminal(fd) {
		b.width = func() int {
			width, _, err := term.GetSize(fd)
			if err != nil || width == 0 {
				return 80 // as terminals are that do not say it
			}
			return width
		}
	}
	return b
}

// Begin starts the n-th entry, counted from 0.
func (b *Bar) Begin(n int, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.name = n, name
}

// Follow redraws the bar as counter grows, until stop is called; further calls of stop do nothing. verb says what is
// being done, such as "copying". If nothing can be drawn, Follow does nothing.
func (b *Bar) Follow(verb string, counter *Counter) (stop func()) {
	if b.width == nil {
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

// draw writes the line again. What does not fit on the terminal is the end of the name: a line that goes on below would
// stay there when the next one is drawn.
func (b *Bar) draw(verb string, fraction float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	filled := int(fraction * barWidth)
	line := fmt.Sprintf("%d/%d %s [%s%s] %3.0f%% %s", b.n+1, b.total, verb, strings.Repeat("#", filled),
		strings.Repeat(".", barWidth-filled), 100*fraction, b.name)
	_, _ = io.WriteString(b.out, "\r"+human.Cut(line, b.width()-1)+eraseRest)
}

// eraseRest erases what is right of the cursor (ECMA-48, EL).
const eraseRest = "\x1b[K"

// clear removes the line that is shown; b.mu must be held.
func (b *Bar) clear() {
	if b.width != nil {
		_, _ = io.WriteString(b.out, "\r"+eraseRest)
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
