package logs

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// followEvery is how often the stream of a log looks for what its running session has stored since.
const followEvery = 2 * time.Second

// follow sends the stored bytes of a log after from, until the session has ended or the client has gone.
func follow(ctx context.Context, f *sessionlogs.File, from int64, running func(context.Context) bool, out io.Writer) error {
	wait := time.NewTicker(followEvery)
	defer wait.Stop()
	for more := true; more; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
		more = running(ctx) // before the look, so that what is stored at the end is sent too
		var err error
		if f, err = f.Refresh(ctx); err != nil {
			return err
		}
		if size := f.Size(); size > from {
			if err := f.WriteRange(ctx, out, from, size); err != nil {
				return err
			}
			from = size
		}
	}
	return nil
}

// flushed sends what is written to it at once.
type flushed struct{ w http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		// What cannot be flushed is sent when its buffer is full.
		_ = http.NewResponseController(f.w).Flush()
	}
	return n, err
}
