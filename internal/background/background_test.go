package background

import (
	"context"
	"testing"
)

func TestWorker(t *testing.T) {
	var idle Worker
	idle.Close() // nothing was started

	var w Worker
	ended := make(chan string, 3)
	until := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			<-ctx.Done()
			ended <- name
		}
	}
	w.Start(until("one"))
	w.Start(func(context.Context) { w.Start(until("started by work")) })
	w.Start(until("two"))
	w.Close()
	if len(ended) != 3 {
		t.Errorf("%d of 3 had ended when Close returned", len(ended))
	}
}

func TestSignal(t *testing.T) {
	c := make(chan struct{}, 1)
	Signal(c)
	Signal(c) // one waits there already
	if len(c) != 1 {
		t.Errorf("%d signals wait, want 1", len(c))
	}
}
