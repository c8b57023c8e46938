package index

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	// minRows is how many attempts a session has at least to be indexed without being asked: smaller ones are replayed as fast.
	minRows = 2000
	// A running session is indexed again when growthBytes of events, and a growthShare of all, were read that its index does not hold: so
	// whoever opens it reads little, and all its indexes together cost a few times what the last one does.
	growthBytes = 64 << 20
	growthShare = 4
)

// Background writes indexes of sessions that were loaded from their events, one at a time, while the server goes on.
type Background struct {
	store  blob.Reader
	opener *Opener
	target *Target
	log    logrus.FieldLogger
	writes *prometheus.CounterVec

	growth int64 // growthBytes, but in tests
	work   chan func(context.Context)
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	tried   map[layout.Session]string // the fingerprint of what could not be indexed
	written map[layout.Session]int64  // bytes of events that the last index holds
}

// NewBackground begins to wait for sessions, until Close.
func NewBackground(store blob.Reader, opener *Opener, target *Target, log logrus.FieldLogger, registry prometheus.Registerer) *Background {
	ctx, stop := context.WithCancel(context.Background())
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "historyserver_index_writes_total", Help: "Indexes of sessions written in the background.",
	}, []string{"result"})
	registry.MustRegister(writes)
	b := &Background{
		store: store, opener: opener, target: target, log: log, writes: writes, growth: growthBytes, work: make(chan func(context.Context)), stop: stop,
		tried: make(map[layout.Session]string), written: make(map[layout.Session]int64),
	}
	b.done.Go(func() {
		for {
			select {
			case job := <-b.work:
				job(ctx)
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

// Offer gives a session that was just loaded or refreshed. It is not indexed if that was done, is not worth it or did not work before, or
// while another one is being indexed: it is offered again when it is loaded or refreshed again.
func (b *Background) Offer(s *session.Session, ended bool) {
	var job func(context.Context)
	switch {
	case canSettle(s):
		job = func(ctx context.Context) { b.settle(ctx, s) }
	case s.Indexed() || s.Tasks.Len() < minRows || b.failed(s) || !ended && !b.hasGrown(s):
		return
	default:
		job = func(ctx context.Context) { b.write(ctx, s) }
	}
	select {
	case b.work <- job:
	default:
	}
}

func (b *Background) failed(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tried[s.Ref] == s.Fingerprint()
}

// settle is best effort: an index that is not known to have settled answers later, not wrongly.
func (b *Background) settle(ctx context.Context, s *session.Session) {
	if _, err := Settle(ctx, b.store, b.target, s); err != nil && ctx.Err() == nil {
		b.log.WithError(err).WithField("session", s.Ref.String()).Debug("cannot note in a session's index that it has settled")
	}
}

// hasGrown says whether a running session's next index is due.
func (b *Background) hasGrown(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	read := s.EventBytes()
	fresh := read - max(s.IndexedBytes(), b.written[s.Ref])
	return fresh >= max(b.growth, read/growthShare)
}

func (b *Background) write(ctx context.Context, s *session.Session) {
	began := time.Now()
	log := b.log.WithField("session", s.Ref.String())
	err := Write(ctx, b.target, s, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.opener.Accept(s.Ref)
		b.written[s.Ref] = s.EventBytes()
		b.writes.WithLabelValues("ok").Inc()
		log.WithField("seconds", time.Since(began).Seconds()).Info("indexed a session")
	case ctx.Err() == nil:
		b.tried[s.Ref] = s.Fingerprint()
		b.writes.WithLabelValues("error").Inc()
		log.WithError(err).Warn("cannot index a session; its events are replayed each time it is loaded")
	}
}
