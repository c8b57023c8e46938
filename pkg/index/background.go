package index

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	// minRows is how many attempts a session must have to be indexed in the background: replaying a smaller one is as fast as its index.
	minRows = 2000
	// A running session is indexed again when the events that its index lacks have growthBytes, and are at least one part in growthDivisor
	// of all. So opening it reads little, and all its indexes together cost a few times what the last one does.
	growthBytes   = 64 << 20
	growthDivisor = 4
	// turnTime is how long a session may be worked on while others wait, and maxTime how long at most.
	turnTime = 5 * time.Minute
	maxTime  = 30 * time.Minute
)

// Background writes indexes of sessions that were loaded from their events, one at a time, while the server goes on. Namespaces take turns.
type Background struct {
	store  blob.Reader
	opener *Opener
	writer *Writer
	log    logrus.FieldLogger
	writes *prometheus.CounterVec

	growth int64 // growthBytes, but in tests
	slots  *turns.Slots
	ctx    context.Context // until Close
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	offered map[string]bool    // namespaces of which a session is worked on or waits
	failed  remembered[string] // the fingerprint of what could not be indexed
	written remembered[int64]  // bytes of events that the last index holds
	kept    remembered[string] // the state whose findings were kept, or could not be
}

// NewBackground waits for sessions until Close.
func NewBackground(store blob.Reader, opener *Opener, writer *Writer, log logrus.FieldLogger, registry prometheus.Registerer) *Background {
	ctx, stop := context.WithCancel(context.Background())
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "historyserver_index_writes_total", Help: "Indexes of sessions written in the background.",
	}, []string{"result"})
	registry.MustRegister(writes)
	b := &Background{
		store: store, opener: opener, writer: writer, log: log, writes: writes, growth: growthBytes, slots: turns.New(1, turnTime), ctx: ctx, stop: stop,
		offered: make(map[string]bool), failed: make(remembered[string]), written: make(remembered[int64]), kept: make(remembered[string]),
	}
	return b
}

// Close waits for the end of the index that is being written, which it cancels.
func (b *Background) Close() {
	b.stop()
	b.mu.Lock() // no offer adds to done any more
	b.mu.Unlock()
	b.done.Wait()
}

// Offer requests an index of a session that was just loaded or refreshed, and that its findings are kept once it has ended. An index is not
// written if the session is indexed already, is too small or failed before. Nothing is done while another session of its namespace is worked on
// or waits: the next load or refresh offers the session again.
func (b *Background) Offer(s *session.Session, ended bool) {
	settle := mayMarkSettled(s)
	// An index that could not be used would be tried again by each server that starts.
	write := !s.Indexed() && (s.Tasks.Len() >= minRows || s.HasIndex()) && !b.hasFailed(s) && (ended || b.hasGrown(s))
	keep := ended && !b.hasKept(s)
	if !settle && !write && !keep {
		return
	}
	namespace := s.Ref.Namespace
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered[namespace] || b.ctx.Err() != nil {
		return
	}
	b.offered[namespace] = true
	waiting := weak.Make(s) // the cache may drop it meanwhile
	b.done.Go(func() {
		b.turn(namespace, func(ctx context.Context) {
			s := waiting.Value()
			if s == nil {
				return
			}
			switch {
			case settle:
				b.markSettled(ctx, s)
			case write:
				b.write(ctx, s, ended)
			}
			if keep {
				b.keep(ctx, s)
			}
		})
	})
}

// turn works on a session of a namespace when it is its turn.
func (b *Background) turn(namespace string, work func(context.Context)) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.offered, namespace)
	}()
	ctx, done, err := b.slots.Take(b.ctx, namespace, 0)
	if err != nil {
		return
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errTime)
	defer cancel()
	work(ctx)
}

var errTime = fmt.Errorf("it takes more than %s", maxTime)

// stateOf changes whenever something is stored of a session.
func stateOf(s *session.Session) string {
	return fmt.Sprintf("%s %x %s", s.Fingerprint(), s.Contents(), s.LastStored())
}

func (b *Background) hasKept(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[s.Ref] == stateOf(s)
}

// keep is best effort: findings that are not kept are computed when they are requested.
func (b *Background) keep(ctx context.Context, s *session.Session) {
	if err := b.writer.KeepFindings(ctx, b.opener, s, false); err != nil && ctx.Err() == nil {
		b.log.WithError(err).WithField("session", s.Ref.String()).Debug("cannot keep a session's findings")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.set(s.Ref, stateOf(s))
}

func (b *Background) hasFailed(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[s.Ref] == s.Fingerprint()
}

// markSettled is best effort: without the mark an index is slower to open, not wrong.
func (b *Background) markSettled(ctx context.Context, s *session.Session) {
	if _, err := b.writer.MarkSettled(ctx, b.store, s); err != nil && ctx.Err() == nil {
		b.log.WithError(err).WithField("session", s.Ref.String()).Debug("cannot mark a session's index as settled")
	}
}

// hasGrown reports whether a running session's next index is due.
func (b *Background) hasGrown(s *session.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	read := s.EventBytes()
	unindexed := read - max(s.IndexedBytes(), b.written[s.Ref])
	return unindexed >= max(b.growth, read/growthDivisor)
}

func (b *Background) write(ctx context.Context, s *session.Session, ended bool) {
	began := time.Now()
	log := b.log.WithField("session", s.Ref.String())
	err := b.writer.Write(ctx, s, nil)
	if err == nil && ended {
		err = b.writer.WriteMetrics(ctx, s.Ref, false)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.opener.Accept(s.Ref)
		b.written.set(s.Ref, s.EventBytes())
		b.writes.WithLabelValues("ok").Inc()
		log.WithField("seconds", time.Since(began).Seconds()).Info("indexed a session")
	case errors.Is(context.Cause(ctx), turns.ErrEnded):
		log.WithError(context.Cause(ctx)).Info("did not finish a session's index; it is begun again when the session is next loaded")
	case ctx.Err() == nil || errors.Is(context.Cause(ctx), errTime):
		b.failed.set(s.Ref, s.Fingerprint())
		b.writes.WithLabelValues("error").Inc()
		log.WithError(err).Warn("cannot index a session; its events are replayed each time it is loaded")
	}
}
