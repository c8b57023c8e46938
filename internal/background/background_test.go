package background

import (
	"context"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
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
	says.Equal(t, len(ended), 3, "%d of 3 had ended when Close returned", len(ended))
}

func TestSignal(t *testing.T) {
	c := make(chan struct{}, 1)
	Signal(c)
	Signal(c) // one waits there already
	says.Equal(t, len(c), 1, "signals wait")
}
