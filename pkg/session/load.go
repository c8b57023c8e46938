package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// source is what a session is read from, and how far it was. Refresh changes it.
type source struct {
	store blob.Reader
	root  string
	opts  Options

	refreshing sync.Mutex
	latest     *Session
	seal       seal
	indexed    bool  // the tables are an index's
	unlisted   bool  // the index's sources were not listed, see Verify
	filed      bool  // the rows are in a rowFile
	resumed    int64 // bytes of events that an index held what they tell, see Session.IndexedBytes
	loaded     time.Time
	took       time.Duration
	entities   *entityTables
	done       map[string]progressOf // by key of the whole
	warnings   warnings

	mu          sync.Mutex
	counts      eventCounts
	first, last int64 // as of Session
}

// progressOf is how far a whole was read.
type progressOf struct {
	chunks   []chunk
	consumed int64
}

// defaultConcurrency suits object stores: requests wait for the network more than for us.
const defaultConcurrency = 16

// Load reads a session: it lists its objects and replays its events. Logs and snapshots are only listed.
//
// What cannot be read for its own faults is left out with a warning; an error of the store, or of ctx, ends the load.
func Load(ctx context.Context, store blob.Reader, root string, ref layout.Session, opts Options) (*Session, error) {
	began := time.Now()
	if opts.Progress == nil {
		opts.Progress = &Progress{}
	}
	if opts.Concurrency <= 0 {
		opts.Concurrency = max(defaultConcurrency, runtime.GOMAXPROCS(0))
	}
	s := &source{store: store, root: root, opts: opts, entities: newEntityTables(), done: make(map[string]progressOf)}
	var err error
	if s.latest, err = s.loadSettled(ctx, ref); err == nil && s.latest == nil {
		s.latest, err = s.loadListed(ctx, ref)
	}
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", ref, err)
	}
	s.loaded, s.took = time.Now(), time.Since(began)
	return s.latest, nil
}

// loadListed lists all objects, and takes the tables from an index or replays the events.
func (s *source) loadListed(ctx context.Context, ref layout.Session) (*Session, error) {
	inv, err := takeInventory(ctx, s.store, s.root, ref, s.opts.Progress)
	if err != nil {
		return nil, err
	}
	if out, err := s.loadIndex(ctx, ref, inv); out != nil || err != nil {
		return out, err
	}
	return s.loadEvents(ctx, ref, inv)
}

// loadIndex takes the tables from an index; nil if there is none that can be used.
func (s *source) loadIndex(ctx context.Context, ref layout.Session, inv *inventory) (*Session, error) {
	if s.opts.Index == nil {
		return nil, nil
	}
	tables, err := s.opts.Index.Open(ctx, ref, inv.sources)
	if err != nil || tables == nil {
		return nil, err
	}
	if tables.Fingerprint != inv.sources.Fingerprint {
		return s.loadCheckpoint(ctx, ref, inv, tables)
	}
	return s.indexedSession(ctx, ref, inv, tables)
}

// indexedSession makes a session of an index's tables; nil if they are damaged.
func (s *source) indexedSession(ctx context.Context, ref layout.Session, inv *inventory, tables *Tables) (*Session, error) {
	out, err := s.fromTables(ctx, ref, inv, tables)
	if errors.Is(err, ErrDamaged) {
		s.opts.Index.Reject(ref, inv.sources.Fingerprint, err)
		return nil, nil
	}
	return out, err
}

// loadEvents replays the session's events.
func (s *source) loadEvents(ctx context.Context, ref layout.Session, inv *inventory) (*Session, error) {
	return s.loadInPasses(ctx, ref, inv, newTaskTables(), func(tables *taskTables) error {
		clear(s.done)
		return s.replayAll(ctx, ref, inv.events, tables, s.opts.Room)
	})
}

// replayAll replays wholes, several at a time. Where there is not room enough, the tables are left incomplete; nil is room for all.
func (s *source) replayAll(ctx context.Context, ref layout.Session, wholes []*whole, tables *taskTables, room func(held int64) bool) error {
	units, err := s.units(ctx, wholes)
	if err != nil {
		return err
	}
	fetchers := newFetchers(s.store)
	defer fetchers.stop()
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	results := make([]replayed, len(units))
	readers := min(s.opts.Concurrency, len(units))
	beside := int64(readers) * readerBytes
	expectPasses := s.opts.Progress.beginPass(wholes)
	for range readers {
		g.Go(func() error {
			r := &replayer{d: newDecoder(tables, s.entities, ref.Name), afterBlock: func() { tables.fit(room, beside, expectPasses) }}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(units) {
					break
				}
				var err error
				if results[i], err = r.replay(ctx, s.reader(ctx, fetchers, units[i]), units[i]); err != nil {
					return err
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counts.add(r.d.counts)
			s.widen(r.d.first, r.d.last)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, u := range units {
		if u.to == toEnd {
			s.done[u.whole.key] = progressOf{chunks: u.whole.chunks, consumed: results[i].consumed}
		}
		s.warnings.addReplayed(u.whole.key, results[i])
	}
	return nil
}

func (s *source) widen(first, last int64) {
	if first != 0 && (s.first == 0 || first < s.first) {
		s.first = first
	}
	s.last = max(s.last, last)
}

// assemble makes a session of what was read.
func (s *source) assemble(ctx context.Context, ref layout.Session, inv *inventory, tables *taskTables) (*Session, error) {
	out := &Session{
		Ref: ref, Logs: inv.logs, Snapshots: inv.snapshots, Foreign: inv.foreign, Ended: inv.ended,
		Start: s.first, End: s.last, source: s, fingerprint: inv.sources.Fingerprint, stored: inv.seal.last,
	}
	defined := s.entities.fill(out)
	jobs, deaths, err := out.ends(ctx, tables.texts)
	if err != nil {
		return nil, err
	}
	out.Tasks = tables.freeze()
	if tables.complete() {
		out.Tasks.deriveLogs(ref.Name, inv.logs)
	} else if out.Tasks.logStartsMissing() {
		s.warnings.once("there are too many tasks to work out where the log of each begins, which Ray before 2.58 does not tell")
	}
	out.Tasks.jobEnds, out.Tasks.deaths = jobs, deaths
	out.Tasks.workOutFinal()
	out.Warnings, out.damage = s.warnings.all(s.counts)
	out.read, out.checkpoint = maps.Clone(s.done), s.checkpoint(out.Tasks, defined)
	s.seal = inv.seal
	return out, nil
}
