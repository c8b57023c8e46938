package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// loader loads sessions, from their indexes where they have one, and otherwise makes one in the background.
type loader struct {
	store   blob.Store
	root    string
	catalog *catalog.Catalog
	log     logrus.FieldLogger
	loads   *prometheus.CounterVec

	indexes *indexes // nil: sessions are always replayed
}

// indexes are what loader needs to use and make them.
type indexes struct {
	opener     *index.Opener
	background *index.Background
	// verifying is the context of verifications, which go on after their sessions were loaded.
	verifying     context.Context
	stop          context.CancelFunc
	verifications sync.WaitGroup
}

func (o *serveOptions) newLoader(store blob.Store, sessions *catalog.Catalog, log logrus.FieldLogger, registry prometheus.Registerer) *loader {
	loads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "historyserver_session_loads_total", Help: "Sessions loaded, by what their tables were made of: events, an index, or an index and newer events (both).",
	}, []string{"from"})
	registry.MustRegister(loads)
	l := &loader{store: store, root: o.storage.Root, catalog: sessions, log: log, loads: loads}
	if o.indexMode != "off" {
		opener, target := o.index.open(store, l.root, log)
		l.indexes = &indexes{opener: opener, background: index.NewBackground(store, opener, target, log, registry)}
		l.indexes.verifying, l.indexes.stop = context.WithCancel(context.Background())
	}
	return l
}

// load loads a session, tells how far it is, and asks for room, see session.Options.
func (l *loader) load(ctx context.Context, ref layout.Session, p *session.Progress, room func(held int64) bool) (*session.Session, error) {
	options := session.Options{Progress: p, Room: room, Log: l.log}
	if l.indexes != nil {
		options.Index = l.indexes.opener
	}
	began := time.Now()
	s, err := session.Load(ctx, l.store, l.root, ref, options)
	if err != nil {
		return nil, err
	}
	l.loads.WithLabelValues(madeOf(s)).Inc()
	if l.indexes != nil {
		l.offer(s, began)
		l.indexes.verifications.Go(func() { l.verify(s) })
	}
	return s, nil
}

func madeOf(s *session.Session) string {
	switch {
	case s.Indexed():
		return "index"
	case s.IndexedBytes() > 0:
		return "both"
	}
	return "events"
}

// refresh gives the session with what was stored since.
func (l *loader) refresh(ctx context.Context, s *session.Session) (*session.Session, error) {
	began := time.Now()
	next, err := s.Refresh(ctx)
	if err == nil && l.indexes != nil {
		l.offer(next, began)
	}
	return next, err
}

// offer has a session indexed that was read at began.
func (l *loader) offer(s *session.Session, began time.Time) {
	l.indexes.background.Offer(s, s.Ended || !l.catalog.Growing(s.Ref, began))
}

func (l *loader) verify(s *session.Session) {
	if err := s.Verify(l.indexes.verifying); err != nil && l.indexes.verifying.Err() == nil {
		l.log.WithError(err).Warn("cannot tell whether a session has grown since it was indexed")
	}
}

// close ends what goes on in the background.
func (l *loader) close() {
	if l.indexes == nil {
		return
	}
	l.indexes.background.Close()
	l.indexes.stop()
	l.indexes.verifications.Wait()
}
