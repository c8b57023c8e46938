package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// source is where a session is read from, and how far it has been read. Refresh changes it.
type source struct {
	store blob.Reader
	root  string
	ref   layout.Session
	opts  Options

	origin     Origin
	begun      time.Time           // when it was made
	refreshing *semaphore.Weighted // held while it is refreshed
	latest     *Session
	version    listingVersion
	index      indexState
	listed     int64 // bytes of memory that the names of objects take
	entities   *entities.Builder

	mu sync.Mutex // guards the state while streams are read
	state
}

// indexState is what is known of the session's index.
type indexState struct {
	exists     bool        // one is stored, whether it is used or not
	used       bool        // the tables come from it
	refused    error       // why the existing one was not used
	unverified bool        // its sources were not listed, see Verify
	outdated   atomic.Bool // it was found not to be made of these sources, see Verify

	bytes    atomic.Int64 // see Session.IndexedBytes
	accepted atomic.Value // string: the fingerprint of the one that AcceptIndex was told of
}

// state is how far a session's events were read, and what is known of them besides what is in tables.
type state struct {
	done        map[string]progressOf // by key of the stream
	counts      eventjson.Counts
	first, last int64 // as of Session
	archived    bool  // the store has archived events, which are left out
	warnings    warnings
}

// progressOf is how far a stream was read.
type progressOf struct {
	chunks   []chunks.Chunk
	consumed int64 // bytes to the end of its last event; unreadable if reading it panicked
}

// unreadable says that reading a stream panicked. It would again, so what comes to the stream is not read.
const unreadable = -1

// clone returns a copy, which later reading does not change.
func (s state) clone() state {
	s.done, s.warnings.list = maps.Clone(s.done), slices.Clone(s.warnings.list)
	return s
}

// newSource makes a source of which nothing is read.
func newSource(store blob.Reader, root string, ref layout.Session, opts Options) *source {
	if opts.Progress == nil {
		opts.Progress = &progress.Counter{}
	}
	if opts.Concurrency <= 0 {
		opts.Concurrency = max(defaultConcurrency, runtime.GOMAXPROCS(0))
	}
	s := &source{
		store: store, root: root, ref: ref, opts: opts, refreshing: semaphore.NewWeighted(1), begun: time.Now(),
	}
	s.resetState()
	return s
}

// resetState resets the source to its state before any event was read.
func (s *source) resetState() {
	s.entities, s.state = entities.NewBuilder(), state{done: make(map[string]progressOf)}
}

// defaultConcurrency suits object stores, where requests mostly wait for the network.
const defaultConcurrency = 16

// Load reads a session: it lists its objects and replays its events. Logs and snapshots are only listed.
//
// Damaged objects, and those that the store has archived, are skipped with a warning. Another error of the store, or
// one of ctx, ends the load.
func Load(ctx context.Context, store blob.Reader, root string, ref layout.Session, opts Options) (*Session, error) {
	const trustSettled = true
	return newSource(store, root, ref, opts).load(ctx, trustSettled)
}

// load makes the session's tables from the index or the events. With trustSettled an index that was made after the
// session settled is taken without listing the events.
func (s *source) load(ctx context.Context, trustSettled bool) (*Session, error) {
	out, err := s.read(ctx, trustSettled)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", s.ref, err)
	}
	s.latest = out
	return out, nil
}

// read makes a session: from a settled index, which is trusted without listing the events (only with trustSettled),
// from an index that fits what is listed, or from the events.
func (s *source) read(ctx context.Context, trustSettled bool) (*Session, error) {
	index, err := s.listIndex(ctx)
	if err != nil {
		return nil, err
	}
	s.index.exists = slices.ContainsFunc(index, func(o blob.Object) bool {
		return o.Key != layout.FindingsKey(s.root, s.ref) // kept findings lie there also without an index
	})
	if trustSettled {
		if out, err := s.loadSettled(ctx, index); out != nil || err != nil {
			return out, err
		}
	}
	found, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	found.sources.Index = index
	if err := s.completeListing(ctx, found); err != nil {
		return nil, err
	}
	if out, err := s.loadIndex(ctx, found); out != nil || err != nil {
		return out, err
	}
	return s.loadEvents(ctx, found)
}

// completeListing reads the lists of empty logs, records the listing's memory in s.listed, and takes over what the
// snapshots of the latest session hold, so that they are not parsed again.
func (s *source) completeListing(ctx context.Context, found *listing) error {
	if err := found.readLists(ctx, s.latest, s.opts.Reserve); err != nil {
		return err
	}
	s.listed = found.memory()
	if s.latest != nil {
		found.snapshots.Adopt(s.latest.Snapshots)
	}
	return nil
}

func (s *source) loadEvents(ctx context.Context, found *listing) (*Session, error) {
	tables := tasktable.NewBuilder()
	tables.Reserve = s.opts.Reserve
	return s.replayInto(ctx, found, found.events, tables)
}

// replayInto makes a session of what was listed, of tables, and of what was not read yet of these streams, which it
// replays into the tables first.
func (s *source) replayInto(ctx context.Context, found *listing, streams []*chunks.Stream,
	tables *tasktable.Builder) (*Session, error) {
	if err := s.replayAll(ctx, streams, tables); err != nil {
		return nil, err
	}
	return s.assemble(ctx, found, tables)
}

// replayAll replays what was not read yet of some streams into tables, several streams at a time, and records in
// s.state how far each was read. A panic while a stream is read becomes a warning.
func (s *source) replayAll(ctx context.Context, streams []*chunks.Stream, tables *tasktable.Builder) error {
	items, err := s.workItems(ctx, streams)
	if err != nil {
		return err
	}
	prefetcher := chunks.NewPrefetcher(s.store)
	defer prefetcher.Stop()
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	results := make([]replayed, len(items))
	readers := min(s.opts.Concurrency, len(items))
	// what the load holds besides the tasks' rows
	besideTasks := func() int64 { return int64(readers)*readerBytes + s.listed + s.entities.MemoryBytes() }
	for range readers {
		g.Go(func() error {
			r := &replayer{
				d: eventjson.NewDecoder(tablesSink{tables, s.entities}, tables.Strings, tables.States,
					s.ref.Name),
				afterBlock: func() error { return tables.SpillIfOverBudget(ctx, besideTasks()) },
			}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					break
				}
				err := guard.CatchPanic(items[i].stream.Key, func() (err error) {
					results[i], err = r.replay(ctx, s.newReader(ctx, prefetcher, items[i]), items[i], s.warn)
					return err
				})
				if caught, panicked := errors.AsType[*guard.Panic](err); panicked {
					s.logPanic(caught)
					s.warn("%s was not read to its end: %v", caught.What, caught.Value)
					results[i].consumed = unreadable
					r.buf = nil // as at the start: the panic may have come while it grew
					continue
				}
				if err != nil {
					return err
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counts.Add(r.d.Counts)
			s.widenTimes(r.d.First, r.d.Last)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, item := range items {
		if item.to == toEnd { // of a stream in several parts the last one, which says how far the stream was read
			s.done[item.stream.Key] = progressOf{chunks: item.stream.Chunks, consumed: results[i].consumed}
		}
		s.archived = s.archived || results[i].archived
		s.warnings.addReplayed(item.stream.Key, results[i])
	}
	return nil
}

// logPanic logs a panic while a stored object was read: damage that the code does not check for.
func (s *source) logPanic(caught *guard.Panic) {
	if s.opts.Log != nil {
		s.opts.Log.WithError(caught).WithFields(logrus.Fields{"session": s.ref.String(),
			"stack": string(caught.Stack)}).Error(
			"a stored object could not be read because of an error in this program: please report this line; " +
				"the session is shown without the object")
	}
}

// warn adds a warning while streams are read.
func (s *source) warn(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings.add(format, args...)
}

// widenTimes includes the times first and last in those of the session; 0 is no time.
func (s *state) widenTimes(first, last int64) {
	if first != 0 && (s.first == 0 || first < s.first) {
		s.first = first
	}
	s.last = max(s.last, last)
}

// setEntities gives a session of found its entities, and the first and last time of its events (Unix nanoseconds). It
// returns the ends of jobs and workers, which end the attempts that no event ended; texts has the strings of the tasks.
func (s *Session) setEntities(ctx context.Context, found *listing, set entities.Set, first, last int64,
	texts *stringtable.Table) (tasktable.Ends, error) {
	s.Set, s.Start, s.End = set, first, last
	s.boundTimes()
	s.shareLogs()
	s.fixed = s.Set.MemoryBytes() + found.bytes
	return s.jobAndWorkerEnds(ctx, texts)
}

// assemble makes a session of all that was read: the listing, the tasks in tables, and the source's other entities.
func (s *source) assemble(ctx context.Context, found *listing, tables *tasktable.Builder) (*Session, error) {
	out := s.newSession(found)
	out.archived = s.archived
	set, defined := s.entities.Set()
	ends, err := out.setEntities(ctx, found, set, s.first, s.last, tables.Strings)
	if err != nil {
		return nil, err
	}
	if out.Tasks, err = tables.Table(ctx, ends); err != nil {
		return nil, err
	}
	switch missing := out.Tasks.LogStartsMissing(); {
	case missing && out.Tasks.InMemory():
		out.Tasks.DeriveLogs("/tmp/ray/"+s.ref.Name+"/logs/", found.logs.WorkerLogs())
	case missing:
		s.warnings.addOnce("there are too many tasks to work out where the log of each begins, which Ray before 2.58 " +
			"does not tell")
	}
	out.Warnings, out.damage = s.warnings.all(s.counts)
	s.refuseIndex(out)
	out.read, out.checkpoint = maps.Clone(s.done), s.checkpoint(out.Tasks, defined)
	s.version = found.version
	return out, nil
}
