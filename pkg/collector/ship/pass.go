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
	left []job // pending and not shipped
	err  error
}

// ShipOnce ships one chunk of each source that is due, the longest waiting first. next is when the next call has something to do; zero
// means only after something is written. An error means that a chunk was due and could not be shipped.
func (s *Shipper) ShipOnce(ctx context.Context) (shipped int, next time.Time, err error) {
	p := s.pass(ctx, false)
	return p.shipped, p.next, p.err
}

// Flush ships everything that is pending, due or not, the shortest first. It gives up only when ctx ends. Then the error names the streams
// that are left.
func (s *Shipper) Flush(ctx context.Context) error {
	wait := backoff.Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}
	for {
		p := s.pass(ctx, true)
		if len(p.left) == 0 {
			return nil
		}
		if ctx.Err() == nil && p.shipped > 0 {
			wait.Reset()
			continue
		}
		timer := time.NewTimer(wait.Next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%d files or event streams are not stored completely: %s: %w", len(p.left), names(p.left), ctx.Err())
		case <-timer.C:
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

// pass checks all sources once and ships those that are due. With all it also ships those that are not due, and does not wait after errors.
func (s *Shipper) pass(ctx context.Context, all bool) passResult {
	now := time.Now()
	jobs, next := s.due(now, all)
	p := passResult{next: next}
	if len(jobs) == 0 {
		return p
	}
	w := &workers{shipper: s, all: all}
	w.fill(ctx, jobs)
	w.wait.Wait()
	p.shipped, p.err = w.shipped, errors.Join(w.errs...)
	if err := ctx.Err(); err != nil && p.err == nil {
		p.err = err
	}
	if all {
		// Sources that grew meanwhile count too: Flush is done when nothing is pending.
		p.left, _ = s.due(time.Now(), true)
	}
	if until := s.nextProbe(time.Now(), jobs); !until.IsZero() {
		p.next = until
	} else if soon := now.Add(passGap); p.err != nil && (p.next.IsZero() || soon.Before(p.next)) {
		p.next = soon // a failed stream is tried again after its own wait
	}
	return p
}
