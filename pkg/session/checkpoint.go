package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

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

// checkpoint notes what a session that is being made would be added to. Consumed and Paused are added when it is stored.
func (s *source) checkpoint(defined entitiesDefined) *checkpoint {
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	return &checkpoint{Defined: defined, Counts: s.counts, Warnings: slices.Clone(s.warnings.list), More: s.warnings.more}
}

// encodeCheckpoint gives the session's checkpoint; nil if it has none, because its rows are not in memory.
func (s *Session) encodeCheckpoint() []byte {
	if s.checkpoint == nil || !s.Tasks.InMemory() {
		return nil
	}
	c := *s.checkpoint
	c.Consumed = make(map[string]int64, len(s.read))
	for key, progress := range s.read {
		c.Consumed[key] = progress.consumed
	}
	for _, paused := range s.Tasks.paused {
		for key, time := range paused {
			c.Paused = append(c.Paused, pausedAttempt{key, time})
		}
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
func (s *Session) EventBytes() (n int64) {
	for _, progress := range s.read {
		n += progress.stored()
	}
	return n
}

func (p progressOf) stored() (n int64) {
	for _, c := range p.chunks {
		n += c.object.Size
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
	tables, err := s.restore(ctx, from, &c)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.opts.Index.Reject(ref, from.Fingerprint, err)
		return nil, nil
	}
	s.done = done
	for _, progress := range done {
		s.resumed += progress.stored()
	}
	s.first, s.last, s.counts = from.Start, from.End, c.Counts
	s.warnings.list, s.warnings.more = c.Warnings, c.More
	grown := s.grown(inv.events)
	s.opts.Progress.only(grown)
	if err := s.replayAll(ctx, ref, grown, tables, s.opts.Room); err != nil {
		return nil, err
	}
	return s.finish(ctx, ref, inv, tables)
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
		if len(p.chunks) > 0 {
			p.consumed = consumed[w.key]
			done[w.key] = p
		}
	}
	return done, len(known) == 0
}

// restore puts the rows of an index back into tables that can be added to.
func (s *source) restore(ctx context.Context, from *Tables, c *checkpoint) (*taskTables, error) {
	tables, err := from.interned()
	if err != nil {
		return nil, err
	}
	entities := newEntityTables()
	if !entities.restore(from, &c.Defined) {
		return nil, fmt.Errorf("%w: its checkpoint is of other tables", ErrDamaged)
	}
	if err := s.restoreRows(ctx, from, tables); err != nil {
		return nil, err
	}
	for _, p := range c.Paused {
		shard := &tables.shards[shardOf(&p.ID)]
		if shard.paused == nil {
			shard.paused = make(map[attemptKey]int64)
		}
		shard.paused[p.attemptKey] = p.Time
	}
	s.entities = entities
	return tables, nil
}

// restoreRows reads all rows, several groups at a time, and puts them into shards in their order.
func (s *source) restoreRows(ctx context.Context, from *Tables, tables *taskTables) error {
	paged := newPagedRows(from.Source, from.Rows, from.First, from.limits())
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan chan []taskPage, runtime.GOMAXPROCS(0))
	g.Go(func() error {
		defer close(queue)
		for n := range from.First {
			pages := make(chan []taskPage, 1)
			select {
			case queue <- pages:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer close(pages)
				read, err := paged.fetch(n, AllParts)
				pages <- read
				return err
			})
		}
		return nil
	})
	for n := 0; ; n++ {
		pages, more := <-queue
		if !more {
			return g.Wait()
		}
		read := <-pages
		for i := range paged.rowsOf(n) {
			if read != nil {
				tables.adopt(&read[i>>pageBits], i&(pageRows-1))
			}
		}
		tables.fit(s.opts.Room, readerBytes, func(int) {})
	}
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
