package ship

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

// passResult is the result of one pass over all sources.
type passResult struct {
	shipped int // chunks
	// next is when the next chunk becomes due, zero if nothing is pending.
	next time.Time
	err  error
}

// ShipOnce ships one chunk of each source that is due, the longest waiting first. next is when the next call has something to do; zero
// means only after something is written. An error means that a chunk was due and could not be shipped.
func (s *Shipper) ShipOnce(ctx context.Context) (shipped int, next time.Time, err error) {
	p := s.pass(ctx)
	return p.shipped, p.next, p.err
}

// Flush ships everything that is pending, due or not, the shortest first, and what becomes pending meanwhile. It gives up only when ctx
// ends. Then the error names the streams that are left.
func (s *Shipper) Flush(ctx context.Context) error {
	w := &workers{shipper: s, all: true, ended: make(chan struct{}, 1)}
	retry := backoff.Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}
	for {
		working := w.working()
		jobs, _ := s.due(time.Now(), true)
		if !working && len(jobs) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			w.wait.Wait()
			if jobs, _ = s.due(time.Now(), true); len(jobs) == 0 {
				return nil
			}
			return fmt.Errorf("%d files or event streams are not stored completely: %s: %w", len(jobs), names(jobs), ctx.Err())
		}
		w.fill(ctx, jobs)
		w.await(ctx, &retry)
	}
}

// await waits until a worker has shipped something and finds no more to do, otherwise for the retry.
func (w *workers) await(ctx context.Context, retry *backoff.Backoff) {
	timer := time.NewTimer(retry.Next())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.ended:
			if w.progress() {
				retry.Reset()
				return
			}
		}
	}
}

// names lists the streams that are left, with their last errors.
func names(left []job) string {
	const maxNames = 10
	var out strings.Builder
	for i, j := range left[:min(len(left), maxNames)] {
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(j.source.Key())
		if j.state.lastError != "" {
			fmt.Fprintf(&out, " (%.300s)", j.state.lastError)
		}
	}
	if len(left) > maxNames {
		fmt.Fprintf(&out, "; and %d more", len(left)-maxNames)
	}
	return out.String()
}

// pass checks all sources once and ships those that are due.
func (s *Shipper) pass(ctx context.Context) passResult {
	now := time.Now()
	jobs, next := s.due(now, false)
	p := passResult{next: next}
	if len(jobs) == 0 {
		return p
	}
	w := &workers{shipper: s}
	w.fill(ctx, jobs)
	w.wait.Wait()
	p.shipped, p.err = w.shipped, errors.Join(w.errs...)
	if err := ctx.Err(); err != nil && p.err == nil {
		p.err = err
	}
	if until := s.nextProbe(time.Now(), jobs); !until.IsZero() {
		p.next = until
	} else if soon := now.Add(passGap); p.err != nil && (p.next.IsZero() || soon.Before(p.next)) {
		p.next = soon // a failed stream is tried again after its own wait
	}
	return p
}
