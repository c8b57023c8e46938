package index

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// minRows is how many attempts a session has at least to be indexed without being asked: smaller ones are replayed as fast.
const minRows = 2000

// Background writes indexes of sessions that were loaded from their events, one at a time, while the server goes on.
type Background struct {
	store  blob.Reader
	opener *Opener
	target *Target
	log    logrus.FieldLogger

	work chan *session.Session
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	tried map[layout.Session]string // the fingerprint of what could not be indexed
}

// NewBackground begins to wait for sessions, until Close.
func NewBackground(store blob.Reader, opener *Opener, target *Target, log logrus.FieldLogger) *Background {
	ctx, stop := context.WithCancel(context.Background())
	b := &Background{store: store, opener: opener, target: target, log: log, work: make(chan *session.Session), stop: stop, tried: make(map[layout.Session]string)}
	b.done.Go(func() {
		for {
			select {
			case s := <-b.work:
				b.write(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	})
	return b
}

// Close ends the index that is being written, which is then none, and waits for that.
func (b *Background) Close() {
	b.stop()
	b.done.Wait()
}

// Offer gives a session that was just loaded and has ended. It is not indexed if that was done, is not worth it or did not work before, or
// while another one is being indexed: it is offered again when it is loaded again.
func (b *Background) Offer(s *session.Session) {
	if s.Indexed() || s.Tasks.Len() < minRows || b.failed(s) {
		return
	}
	select {
	case b.work <- s:
	default:
	}
}

func (b *Background) failed(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tried[s.Ref] == s.Fingerprint()
}

func (b *Background) write(ctx context.Context, s *session.Session) {
	began := time.Now()
	log := b.log.WithField("session", s.Ref.String())
	err := Write(ctx, b.store, b.target, s, nil)
	switch {
	case err == nil:
		b.opener.Accept(s.Ref)
		log.WithField("seconds", time.Since(began).Seconds()).Info("indexed a session")
		return
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrChanged):
		log.Debug("a session grew while it was indexed")
	default:
		log.WithError(err).Warn("cannot index a session; its events are replayed each time it is loaded")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tried[s.Ref] = s.Fingerprint()
}
