package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
)

// take requests one URL, stores the answer if it changed, and requests the details of the nodes and jobs in it. done says that the answer
// is stored, or equal to the stored one, or that the dashboard has none.
func (t *Taker) take(ctx context.Context, s *sessionState, e endpoint, final bool) (stored, done bool) {
	start := time.Now()
	file, err := t.fetch(ctx, e.url)
	var status *statusError
	absent := errors.As(err, &status) && status.Status == http.StatusNotFound // there is no answer
	t.schedule(e, start, err != nil && !absent && ctx.Err() == nil)
	if isRefusal(err) {
		t.reportFailure(ctx, e.url, err)
		return false, false
	}
	if err != nil {
		if status == nil && ctx.Err() == nil {
			t.metrics.errors.Inc()
			t.opts.Log.WithError(err).Debug("no snapshot")
		}
		return false, absent
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // unless it was moved
	}()
	if err := t.checkSession(ctx); err != nil {
		t.opts.Log.WithError(err).Debug("no snapshot")
		return false, false
	}
	listed, listErr := readListing(e, file)
	if isRefusal(listErr) {
		t.reportFailure(ctx, e.url, listErr)
		return false, false
	}
	taken := time.Now()
	stored, keep, err := t.storeIfChanged(ctx, s, e, file, taken, final)
	if keep {
		err = errors.Join(err, t.keep(s, e.url, file, taken))
	}
	// After a failure the details are left to a later round; the final round is the last.
	if err == nil || (final && !isRefusal(err)) {
		t.takeDetails(ctx, s, listed, final)
	}
	if err = errors.Join(listErr, err); err != nil {
		t.reportFailure(ctx, e.url, err)
	}
	return stored, err == nil && (stored || !keep || e.hardware)
}

// schedule says when a URL may be asked again, after a request that began at start.
func (t *Taker) schedule(e endpoint, start time.Time, failed bool) {
	pause := e.pause(time.Since(start))
	if failed && e.ended {
		t.failures[e.url]++
		pause = max(pause, failurePause(t.failures[e.url], t.opts.Interval))
	} else {
		delete(t.failures, e.url)
	}
	t.next[e.url] = start.Add(pause)
}

// failurePause returns the time until the next request to a URL that failed a number of times in a row. After the first failure it is asked
// in the next round: half an interval has passed by then.
func failurePause(failures int, interval time.Duration) time.Duration {
	return min(interval/2<<min(failures-1, 5), max(maxInterval, interval))
}

// fetch writes an answer to a new file.
func (t *Taker) fetch(ctx context.Context, url string) (*os.File, error) {
	body, err := t.opts.Client.Get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	file, err := t.session.newFile()
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(file, io.LimitReader(body, answer.MaxBytes+1))
	if err == nil && n > answer.MaxBytes {
		err = &answer.Refusal{Reason: "bytes", Limit: answer.MaxBytes}
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("ask the dashboard: %w", err)
	}
	return file, nil
}
