// Package background has what the collector's parts need to work in the background.
package background

import (
	"context"
	"sync"
)

// Worker works in the background from Start to Close.
type Worker struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start calls work with a context that Close cancels.
func (w *Worker) Start(work func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.done.Go(func() { work(ctx) })
}

// Close returns when the work has ended. Without a Start it does nothing.
func (w *Worker) Close() {
	if w.cancel != nil {
		w.cancel()
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
