package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	// minRows is how many attempts a session must have to be indexed in the background: replaying a smaller one is as
	// fast as its index.
	minRows = 2000
	// A running session is indexed again when the events that its index lacks have growthBytes, and are at least one
	// part in growthDivisor of all. So opening it reads little, and all its indexes together cost a few times what the
	// last one does.
	growthBytes   = 64 << 20
	growthDivisor = 4
	// maxQueue is how many sessions of a namespace wait.
	maxQueue = 16
	// turnTime is how long a session may be worked on while others wait, and maxTime how long at most.
	turnTime = 5 * time.Minute
	maxTime  = 30 * time.Minute
	// retryAfter is how long what failed is not tried again for a session, whenever it is offered: stores recover.
	retryAfter = 30 * time.Minute
)

// Background writes indexes of sessions that were loaded from their events, one at a time, while the server goes on.
// Namespaces take turns.
type Background struct {
	writer *Writer
	writes *prometheus.CounterVec

	growth int64 // growthBytes, except in tests
	slots  *turns.Slots
	ctx    context.Context // until Close
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	queues map[string][]job // of the namespaces that are worked on

	indexes remembered[attempt] // the fingerprint of what could not be indexed
	metrics remembered[attempt] // the state whose metrics were indexed, or could not be
	kept    remembered[attempt] // the state whose findings were kept, or may not be
}

// attempt is something that was done for a state of a session, or was tried.
type attempt struct {
	state string
	again time.Time // when to try it again; zero: not for this state
}

// isDue says that something is to be done for a state of a session.
func isDue(last remembered[attempt], ref layout.Session, state string) bool {
	a, tried := last.Get(ref)
	return !tried || a.state != state || !a.again.IsZero() && time.Now().After(a.again)
}

// failedAttempt is an attempt that ended with an error. After a panic, or if it took too long, it is not made again: it
// would fail again. If the store refused it, it is made again when a refusal no longer counts, otherwise after
// retryAfter.
func failedAttempt(state string, err error) attempt {
	_, panicked := errors.AsType[*guard.Panic](err)
	switch {
	case panicked || errors.Is(err, errTime):
		return attempt{state: state}
	case blob.IsDenied(err):
		return attempt{state, time.Now().Add(blob.DeniedFor)}
	}
	return attempt{state, time.Now().Add(retryAfter)}
}

// NewBackground makes a Background that works on the sessions offered to it until Close.
func NewBackground(writer *Writer, registry prometheus.Registerer) *Background {
	ctx, stop := context.WithCancel(context.Background())
	return &Background{
		writer: writer, growth: growthBytes,
		writes: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_index_writes_total", Help: "Indexes of sessions written in the background.",
		}, []string{"result"}),
		slots: turns.New(1, turnTime), ctx: ctx, stop: stop,
		queues: make(map[string][]job), indexes: newRemembered[attempt](), metrics: newRemembered[attempt](),
		kept: newRemembered[attempt](),
	}
}

// Close waits for the end of the index that is being written, which it cancels.
func (b *Background) Close() {
	b.mu.Lock() // after this no offer adds to done
	b.stop()
	b.mu.Unlock()
	b.done.Wait()
}

// Offer requests an index of a session that was just loaded or refreshed and, once it has ended, one of its metrics,
// and that its findings are kept. If it was loaded from an index and has settled, that index is marked so. ended says
// that no more of the session is expected to be stored; before, an index is only written when the session has grown
// enough. An index is not written if the session is indexed already, is too small or if writing it has just failed.
// Nothing is done if many sessions of its namespace wait: the next load or refresh offers the session again.
func (b *Background) Offer(s *session.Session, ended bool) {
	mark := mayMarkSettled(s) // as settled, the index that s was loaded from; then s lacks none
	write := b.lacksIndex(s) && (ended || b.hasGrown(s))
	metrics := ended && b.lacksMetrics(s)
	findings := ended && !b.hasKept(s)
	if !mark && !write && !metrics && !findings {
		return
	}
	waiting := weak.Make(s) // the cache may drop it meanwhile
	b.enqueue(s.Ref, func(ctx context.Context) {
		s := waiting.Value()
		if s == nil {
			return
		}
		switch {
		case mark:
			b.markSettled(ctx, s)
		case write:
			b.writeIndex(ctx, s)
		}
		if findings {
			_ = b.keepFindings(ctx, s) // findings that are not kept are computed when they are requested
		}
		if metrics { // last, because findings need no index of them, which may take all the time that there is
			b.writeMetrics(ctx, s)
		}
	})
}

// Finish waits for the turn of an ended session's namespace, then writes the session's indexes, if it lacks them, and
// keeps its findings. The error is that of keeping the findings: the caller wants them, an index only saves time.
func (b *Background) Finish(ctx context.Context, s *session.Session) error {
	ctx, done, err := b.slots.Take(ctx, s.Ref.Namespace, turns.NoLimit)
	if err != nil {
		return err
	}
	defer done()
	if b.lacksIndex(s) {
		b.writeIndex(ctx, s)
	}
	err = b.keepFindings(ctx, s)
	if b.lacksMetrics(s) {
		b.writeMetrics(ctx, s)
	}
	return err
}

// lacksIndex says that an index of the session, as it was read, can be written and saves time.
func (b *Background) lacksIndex(s *session.Session) bool {
	return !s.IndexStored() && !s.Archived() && isWorthIndex(s) && isDue(b.indexes, s.Ref, s.Fingerprint())
}

// lacksMetrics says that the metrics of a session that is worth an index may have none of their own, or one that was
// made of others than are stored now: they are stored late, and their chunks are joined.
func (b *Background) lacksMetrics(s *session.Session) bool {
	return b.writer.Metrics != nil && isWorthIndex(s) && isDue(b.metrics, s.Ref, stateOf(s))
}

func isWorthIndex(s *session.Session) bool { return s.Tasks.Len() >= minRows || s.HasIndex() }

// job is what is to be done for a session.
type job struct {
	ref layout.Session
	do  func(context.Context)
}

// enqueue has do called when it is the turn of the session's namespace. do takes the place of an earlier job of the
// same session that has not begun. If too many wait, it is dropped: the session is offered again when it is next
// loaded.
func (b *Background) enqueue(ref layout.Session, do func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, busy := b.queues[ref.Namespace] // busy: a goroutine does the namespace's jobs
	i := slices.IndexFunc(queue, func(j job) bool { return j.ref == ref })
	switch {
	case b.ctx.Err() != nil:
		return
	case i >= 0:
		queue[i].do = do
	case len(queue) < maxQueue:
		b.queues[ref.Namespace] = append(queue, job{ref, do})
	}
	if !busy {
		b.done.Go(func() {
			for b.doTurn(ref.Namespace) {
			}
		})
	}
}

// doTurn waits for a namespace's turn and does its next job; false if there was none, or after Close.
func (b *Background) doTurn(namespace string) bool {
	turnCtx, done, err := b.slots.Take(b.ctx, namespace, turns.NoLimit)
	if err != nil {
		return false
	}
	defer done()
	b.mu.Lock()
	queue := b.queues[namespace]
	if len(queue) == 0 {
		delete(b.queues, namespace)
		b.mu.Unlock()
		return false
	}
	b.queues[namespace] = queue[1:]
	b.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(turnCtx, maxTime, errTime)
	defer cancel()
	queue[0].do(ctx)
	return true
}

var errTime = fmt.Errorf("it takes more than %s", maxTime)

// stateOf changes whenever something is stored of a session.
func stateOf(s *session.Session) string {
	return fmt.Sprintf("%s %x %s", s.Fingerprint(), s.Contents(), s.LastStored())
}

func (b *Background) hasKept(s *session.Session) bool {
	return !isDue(b.kept, s.Ref, stateOf(s))
}

// keepFindings stores a session's findings, unless they are stored. If that fails, it is tried again when the session
// is next offered, except after a panic, which would come again, and if the store refuses to be written.
func (b *Background) keepFindings(ctx context.Context, s *session.Session) error {
	const force = false
	err := b.writer.KeepFindings(ctx, s, force)
	if err != nil && ctx.Err() == nil {
		b.writer.Log.WithError(err).WithField("session", s.Ref.String()).Debug("cannot keep a session's findings")
	}
	_, panicked := errors.AsType[*guard.Panic](err)
	switch {
	case err == nil:
		b.kept.Put(s.Ref, attempt{state: stateOf(s)})
	case panicked || blob.IsDenied(err):
		b.kept.Put(s.Ref, failedAttempt(stateOf(s), err))
	}
	return err
}

// markSettled is best effort: without the mark an index is slower to open, not wrong.
func (b *Background) markSettled(ctx context.Context, s *session.Session) {
	if _, err := b.writer.MarkSettled(ctx, s); err != nil && ctx.Err() == nil {
		b.writer.Log.WithError(err).WithField("session", s.Ref.String()).Debug("cannot mark a session's index as settled")
	}
}

// hasGrown reports whether a running session's next index is due.
func (b *Background) hasGrown(s *session.Session) bool {
	read := s.EventBytes()
	return read-s.IndexedBytes() >= max(b.growth, read/growthDivisor)
}

// writeIndex indexes a session. A failure is logged and remembered, so that it is not tried again at once; an index
// that was not finished in its turn is no failure.
func (b *Background) writeIndex(ctx context.Context, s *session.Session) {
	began := time.Now()
	log := b.writer.Log.WithField("session", s.Ref.String())
	err := b.writer.Write(ctx, s, nil) // nobody asks for its progress
	switch {
	case err == nil:
		b.writer.Accept(s.Ref)
		s.AcceptIndex()
		b.writes.WithLabelValues("ok").Inc()
		log.WithField("seconds", time.Since(began).Seconds()).Info("indexed a session")
	case errors.Is(context.Cause(ctx), turns.ErrEnded):
		log.WithError(context.Cause(ctx)).Info(
			"did not finish a session's index; it is begun again when the session is next loaded")
	case ctx.Err() == nil || errors.Is(context.Cause(ctx), errTime): // otherwise the server or its caller stops
		b.indexes.Put(s.Ref, failedAttempt(s.Fingerprint(), cmp.Or(context.Cause(ctx), err)))
		b.writes.WithLabelValues("error").Inc()
		log.WithError(err).Warn("cannot index a session; its events are replayed each time it is loaded")
	}
}

// writeMetrics indexes the metrics of a session, and remembers whether that worked, unless the server stops.
func (b *Background) writeMetrics(ctx context.Context, s *session.Session) {
	const force = false
	err := b.writer.WriteMetrics(ctx, s.Ref, force)
	switch cause := context.Cause(ctx); {
	case err == nil:
		b.metrics.Put(s.Ref, attempt{state: stateOf(s)})
	case !errors.Is(cause, context.Canceled):
		b.metrics.Put(s.Ref, failedAttempt(stateOf(s), cmp.Or(cause, err)))
	}
}

// maxRemembered bounds what is remembered of sessions: some hundred bytes of each.
const maxRemembered = 10_000

// remembered holds something of at most maxRemembered sessions. The work on one that is forgotten is done once more.
type remembered[V any] = *cache.Cache[layout.Session, V]

func newRemembered[V any]() remembered[V] {
	return cache.New[layout.Session, V](maxRemembered, cache.Forever, nil)
}
