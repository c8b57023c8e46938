package collector

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

const (
	// scanPoll is the time between two checks whether another scan is necessary.
	scanPoll = 50 * time.Millisecond
	// movedScans is the number of scans that follow logs which are rotated while they are stored. Ray rotates so rarely that these are enough.
	movedScans = 3
)

// lastScans looks for logs in the background while the collector ends.
type lastScans struct {
	tailer *logs.Tailer
	cancel context.CancelFunc
	done   chan struct{}
	err    error // may be read after done
	count  atomic.Int32
	// idle is false while a scan runs and before the first.
	idle atomic.Bool
}

func beginLastScans(ctx context.Context, tailer *logs.Tailer) *lastScans {
	ctx, cancel := context.WithCancel(ctx)
	s := &lastScans{tailer: tailer, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = s.run(ctx)
	}()
	return s
}

func (s *lastScans) run(ctx context.Context) error {
	for {
		if _, err := s.tailer.Scan(ctx); err != nil {
			return err
		}
		s.count.Add(1)
		s.idle.Store(true)
		for !s.necessary() {
			if backoff.Sleep(ctx, scanPoll) != nil {
				return nil
			}
		}
		s.idle.Store(false)
	}
}

// necessary says whether another scan finds more: the rest of a log that was rotated while it was stored, or logs that waited for the places
// of others.
func (s *lastScans) necessary() bool {
	return s.tailer.Left() > 0 || (s.count.Load() < movedScans && s.tailer.Moved())
}

// complete says whether all logs were found, as far as they were there when it was called.
func (s *lastScans) complete() bool {
	select {
	case <-s.done:
		return true // end tells why
	default:
		return s.idle.Load() && !s.necessary()
	}
}

// end stops the scans, and returns why they failed.
func (s *lastScans) end() error {
	s.cancel()
	<-s.done
	return s.err
}
