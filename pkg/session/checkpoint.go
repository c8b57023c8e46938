package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// An index is not lost when more of its session is stored: its rows are put back into shards as if their events had just been replayed, and
// only what was stored since is read. So a running session, however long, is opened by reading little more than its last part.

// checkpoint is what that needs beside the rows: how far each whole was read, and what chooses between events that contradict each other.
type checkpoint struct {
	Consumed map[string]int64 // by key of the whole: its bytes, uncompressed, to the end of the last event
	Defined  entitiesDefined
	Paused   []pausedAttempt
	Counts   eventCounts
	Warnings []string
	More     int // warnings beyond those
}

// pausedAttempt is an entry of shardRows.paused.
type pausedAttempt struct {
	attemptKey
	Time int64 // Unix nanoseconds
}

// checkpoint notes what more events would be merged with. Consumed is added when it is stored.
func (s *source) checkpoint(tasks *Tasks, defined entitiesDefined) *checkpoint {
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	c := &checkpoint{Defined: defined, Counts: s.counts, Warnings: slices.Clone(s.warnings.list), More: s.warnings.more}
	for _, paused := range tasks.paused {
		for key, time := range paused {
			c.Paused = append(c.Paused, pausedAttempt{key, time})
		}
	}
	return c
}

// encodeCheckpoint gives the session's checkpoint; nil if it has none, because its tables are an index's.
func (s *Session) encodeCheckpoint() []byte {
	if s.checkpoint == nil {
		return nil
	}
	c := *s.checkpoint
	c.Consumed = make(map[string]int64, len(s.read))
	for key, progress := range s.read {
		c.Consumed[key] = progress.consumed
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("a checkpoint has no JSON: %v", err)) // it holds nothing that could have none
	}
	return text
}

// objects are the events that the session's tables were made of, by key.
func (s *Session) objects() []blob.Object {
	var all []blob.Object
	for _, progress := range s.read {
		for _, c := range progress.chunks {
			all = append(all, c.object)
		}
	}
	slices.SortFunc(all, func(a, b blob.Object) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// EventBytes is how many bytes of events, as stored, the session's tables were made of.
func (s *Session) EventBytes() int64 { return storedBytes(s.read) }

func storedBytes(read map[string]progressOf) (n int64) {
	for _, progress := range read {
		for _, c := range progress.chunks {
			n += c.object.Size
		}
	}
	return n
}

// IndexedBytes is how many of them were not read, because an index held what they tell.
func (s *Session) IndexedBytes() int64 { return s.source.resumed }

// loadCheckpoint makes a session of an index that was made when less was stored, and of what was stored since; nil if it cannot be added to.
func (s *source) loadCheckpoint(ctx context.Context, ref layout.Session, inv *inventory, from *Tables) (*Session, error) {
	var c checkpoint
	if err := json.Unmarshal(from.Checkpoint, &c); err != nil {
		s.opts.Index.Reject(ref, from.Fingerprint, fmt.Errorf("%w: its checkpoint: %w", ErrDamaged, err))
		return nil, nil
	}
	done, unchanged := progressBefore(inv.events, from.Objects, c.Consumed)
	if !unchanged {
		return nil, nil
	}
	tables, err := from.interned()
	if err == nil && !s.entities.restore(from, &c.Defined) {
		err = fmt.Errorf("%w: its checkpoint is of other tables", ErrDamaged)
	}
	if err != nil {
		s.opts.Index.Reject(ref, from.Fingerprint, err)
		return nil, nil
	}
	s.done, s.resumed = done, storedBytes(done)
	s.first, s.last, s.counts = from.Start, from.End, c.Counts
	s.warnings.list, s.warnings.more = c.Warnings, c.More
	grown := s.grown(inv.events)
	s.opts.Progress.only(grown)
	var unreadable error
	out, err := s.loadInPasses(ctx, ref, inv, tables, func(tables *taskTables) error {
		s.done = maps.Clone(done)
		if unreadable = s.restoreRows(ctx, from, c.Paused, tables); unreadable != nil {
			return unreadable
		}
		return s.replayAll(ctx, ref, grown, tables, s.opts.Room)
	})
	if unreadable != nil && ctx.Err() == nil {
		s.opts.Index.Reject(ref, from.Fingerprint, unreadable)
		s.forget()
		return nil, nil
	}
	return out, err
}

// forget makes the source one of which nothing was read.
func (s *source) forget() {
	s.entities, s.done, s.resumed = newEntityTables(), make(map[string]progressOf), 0
	s.first, s.last, s.counts = 0, 0, eventCounts{}
	s.warnings.list, s.warnings.more, s.warnings.muted = nil, 0, false
}

// progressBefore says how far wholes were read when just objects were. It is false if one of those is gone, or is another by now.
func progressBefore(wholes []*whole, objects []blob.Object, consumed map[string]int64) (done map[string]progressOf, unchanged bool) {
	known := make(map[string]blob.Object, len(objects))
	for _, o := range objects {
		known[o.Key] = o
	}
	done = make(map[string]progressOf)
	for _, w := range wholes {
		var p progressOf
		for _, c := range w.chunks {
			if o, ok := known[c.object.Key]; ok {
				if !sameChunk(c, chunk{object: o}) {
					return nil, false
				}
				delete(known, o.Key)
				p.chunks = append(p.chunks, c)
			}
		}
		if len(p.chunks) == 0 {
			continue
		}
		p.consumed = consumed[w.key]
		if last := p.chunks[len(p.chunks)-1]; p.consumed < 0 || last.compression == layout.Plain && p.consumed > last.offset+last.object.Size {
			return nil, false
		}
		done[w.key] = p
	}
	return done, len(known) == 0
}

// restoreRows puts an index's rows back into the shards that tables keep. Groups are read several at a time, and put in their order.
func (s *source) restoreRows(ctx context.Context, from *Tables, paused []pausedAttempt, tables *taskTables) error {
	paged := newPagedRows(from.Source, from.Rows, from.First, from.limits())
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan restored, runtime.GOMAXPROCS(0))
	begin := tables.begin
	var end atomic.Int64 // as tables.end: the rows of shards that were dropped need not be read
	end.Store(int64(tables.end))
	g.Go(func() error {
		defer close(queue)
		for n := range from.First {
			if n+1 < len(from.First) && shardOf(&from.First[n+1]) < begin {
				continue
			}
			if int64(shardOf(&from.First[n])) >= end.Load() {
				return nil
			}
			group := restored{rows: paged.rowsOf(n), pages: make(chan []taskPage, 1)}
			select {
			case queue <- group:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer close(group.pages)
				pages, err := paged.fetch(n, AllParts)
				if err == nil {
					group.pages <- pages
				}
				return err
			})
		}
		return nil
	})
	beside := int64(cap(queue)+2) * groupPages * pageMemory
	inOrder := true
	var last attemptKey
	for group := range queue {
		pages, read := <-group.pages
		for n := range group.rows {
			if !read {
				break
			}
			p, i := &pages[n>>pageBits], n&(pageRows-1)
			next := attemptKey{p.id[i], p.attempt[i]}
			if inOrder = inOrder && (last.ID.Nil() || compareAttempts(last, next) < 0); inOrder {
				tables.adopt(p, i)
			}
			last = next
		}
		tables.fit(s.opts.Room, beside, func(int) {})
		end.Store(int64(tables.end))
	}
	for _, p := range paused {
		tables.shards[shardOf(&p.ID)].restorePaused(p)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if !inOrder {
		return fmt.Errorf("%w: its rows are not in order", ErrDamaged)
	}
	return nil
}

// restored is a group of rows that is being read; pages is closed without any if that fails.
type restored struct {
	rows  int
	pages chan []taskPage
}

func (s *taskShard) restorePaused(p pausedAttempt) {
	switch {
	case s.dropped:
		return
	case s.paused == nil:
		s.paused = make(map[attemptKey]int64)
	}
	s.paused[p.attemptKey] = p.Time
}

// adopt puts a row of another table, which refers to the same texts and follows all that were put before, into its shard.
func (t *taskTables) adopt(p *taskPage, i int) {
	s := &t.shards[shardOf(&p.id[i])]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return
	}
	q, j := s.find(&p.id[i], p.attempt[i])
	q.copyRow(j, p, i)
	q.forgetDerivedLog(j)
	s.sorted++
	q.rest[j], q.failure[j], q.profile[j] = 0, 0, 0
	for at := p.rest[i]; at != 0; {
		tr := *p.arenas.transitions.at(int(at - 1))
		at, tr.next = tr.next, q.rest[j]
		q.rest[j] = uint32(s.transitions.add(tr)) + 1
	}
	if p.failure[i] != 0 {
		f := *p.arenas.failures.at(int(p.failure[i] - 1))
		f.text = s.bytes.put(p.arenas.bytes.get(f.text, int(f.length)))
		q.failure[j] = uint32(s.failures.add(f)) + 1
	}
	for at := p.profile[i]; at != 0; {
		next, events := p.arenas.block(at)
		q.profile[j], at = s.putProfile(q.profile[j], events), next
	}
}

// grown are the wholes of which not all was read.
func (s *source) grown(wholes []*whole) []*whole {
	return slices.DeleteFunc(slices.Clone(wholes), func(w *whole) bool {
		return slices.EqualFunc(s.done[w.key].chunks, w.chunks, sameChunk)
	})
}
