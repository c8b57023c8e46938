// Package background has what parts need that work in the background.
package background

import (
	"context"
	"sync"
)

// Worker works in the background until Close. The zero value has nothing to do.
type Worker struct {
	ctx  context.Context // until Close; nil before the first Start
	stop context.CancelFunc
	done sync.WaitGroup
}

// Start calls work with a context that Close cancels, and that is over after Close. It may be called again, by whoever
// called it first or by work.
func (w *Worker) Start(work func(context.Context)) {
	if w.stop == nil {
		w.ctx, w.stop = context.WithCancel(context.Background())
	}
	w.done.Go(func() { work(w.ctx) })
}

// Close returns when all work has ended. Without a Start it does nothing.
func (w *Worker) Close() {
	if w.stop != nil {
		w.stop()
		w.done.Wait()
	}
}

// Signal sends to a channel with a buffer of one, unless a signal waits there already.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
