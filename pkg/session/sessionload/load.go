// Package sessionload opens stored sessions for the server's cache: from their index if it is up to date, otherwise
// from their events. After that it indexes the session in the background.
package sessionload

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/sirupsen/logrus"
)

// Options of a Loader.
type Options struct {
	Store blob.Store
	Root  string
	// Growing says whether more of a session may have been stored since the given time.
	Growing func(ref layout.Session, since time.Time) bool
	// Memory bounds what reading snapshots may take; nil has no bounds.
	Memory *budget.Budget
	// Writer says where indexes are; nil: none is read or written.
	Writer     *index.Writer
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Loader loads sessions. Safe for concurrent use.
type Loader struct {
	opts    Options
	loads   *prometheus.CounterVec
	damaged prometheus.Counter
	// background writes indexes; nil without Options.Writer.
	background *index.Background

	// Verifications of indexes go on after their sessions were loaded, until stop.
	verifying     context.Context
	stop          context.CancelFunc
	verifications sync.WaitGroup
}

// New makes a Loader, which works until Close.
func New(opts Options) *Loader {
	l := &Loader{opts: opts, loads: promauto.With(opts.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "historyserver_session_loads_total",
		Help: "Sessions loaded, by what their tables were made of: events, an index, or an index and newer events " +
			"(both).",
	}, []string{"from"})}
	l.damaged = promauto.With(opts.Registerer).NewCounter(prometheus.CounterOpts{
		Name: "historyserver_session_loads_damaged_total",
		Help: "Sessions loaded of which something was damaged or missing: their pages say what.",
	})
	l.verifying, l.stop = context.WithCancel(context.Background())
	if opts.Writer != nil {
		l.background = index.NewBackground(opts.Writer, opts.Registerer)
	}
	return l
}

// Close ends what goes on in the background.
func (l *Loader) Close() {
	if l.background != nil {
		l.background.Close()
	}
	l.stop()
	l.verifications.Wait()
}

// load loads a session for requests, and has it indexed. reserve and grew are as in session.Options.
func (l *Loader) load(ctx context.Context, ref layout.Session, p *progress.Counter, reserve func(total int64) bool,
	grew func()) (*session.Session, error) {
	began := time.Now()
	s, err := l.read(ctx, ref, p, reserve, grew)
	if err != nil {
		return nil, err
	}
	l.offerForIndex(s, began)
	if l.background != nil {
		l.verifications.Go(func() { l.verify(s) })
	}
	return s, nil
}

// Explain stores the index and the findings of an ended session, where they are missing. It takes the session from the
// cache or loads it once, beside the loads for which people wait.
func (l *Loader) Explain(ctx context.Context, cache *sessioncache.Cache[*session.Session], ref layout.Session) error {
	s, release, err := cache.Aside(ctx, ref, func(ctx context.Context, reserve func(int64) bool) (*session.Session,
		error) {
		return l.read(ctx, ref, &progress.Counter{}, reserve, nil)
	})
	if err != nil {
		return err
	}
	defer release()
	return l.background.Finish(ctx, s)
}

// read loads a session by its index or by replay, and counts which it was.
func (l *Loader) read(ctx context.Context, ref layout.Session, p *progress.Counter, reserve func(total int64) bool,
	grew func()) (*session.Session, error) {
	options := session.Options{Progress: p, Reserve: reserve, Memory: l.opts.Memory, Grew: grew, Log: l.opts.Log}
	if l.opts.Writer != nil {
		options.Index = l.opts.Writer.Opener
	}
	s, err := session.Load(ctx, l.opts.Store, l.opts.Root, ref, options)
	if err != nil {
		return nil, err
	}
	l.loads.WithLabelValues(sourceName(s)).Inc()
	if len(s.Damage()) > 0 {
		l.damaged.Inc()
	}
	return s, nil
}

// sourceName says what a session's tables were made of.
func sourceName(s *session.Session) string {
	switch {
	case s.Indexed():
		return "index"
	case s.IndexedBytes() > 0:
		return "both"
	}
	return "events"
}

// refresh returns the session with what was stored since.
func (l *Loader) refresh(ctx context.Context, s *session.Session) (*session.Session, error) {
	began := time.Now()
	next, err := s.Refresh(ctx)
	if err == nil {
		l.offerForIndex(next, began)
	}
	return next, err
}

// offerForIndex has a session indexed that was read at began.
func (l *Loader) offerForIndex(s *session.Session, began time.Time) {
	if l.background != nil {
		l.background.Offer(s, s.Ended() || !l.opts.Growing(s.Ref, began))
	}
}

// verify lists what loading left out, see session.Session.Verify. Its result is in the session itself.
func (l *Loader) verify(s *session.Session) {
	if err := s.Verify(l.verifying); err != nil && l.verifying.Err() == nil {
		l.opts.Log.WithError(err).Warn("cannot find out whether a session has grown since it was indexed")
	}
}

// Cache makes a cache of the sessions that the loader loads. The options have its limits; the loader sets all others.
// Close it before the loader.
func (l *Loader) Cache(o sessioncache.Options[*session.Session]) *sessioncache.Cache[*session.Session] {
	var cache *sessioncache.Cache[*session.Session]
	o.Load = func(ctx context.Context, ref layout.Session, p *progress.Counter,
		reserve func(bytes int64) bool) (*session.Session, error) {
		return l.load(ctx, ref, p, reserve, func() { cache.Measure(ref) })
	}
	o.Refresh, o.Growing = l.refresh, l.opts.Growing
	o.Log, o.Registerer = l.opts.Log, l.opts.Registerer
	cache = sessioncache.New(o)
	return cache
}
