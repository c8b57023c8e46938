package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// An index stays useful when more of its session is stored. Its rows are put back into shards as if their events had
// just been replayed; then only the events stored since are read. So opening a long running session reads little more
// than its newest events.

// checkpoint is what this needs besides the rows: how far each stream was read, and the data that decides between
// contradicting events.
type checkpoint struct {
	Consumed map[string]int64 // by key of the stream: its bytes, uncompressed, to the end of the last event
	Defined  entities.Definitions
	Paused   []tasktable.PausedAttempt
	Counts   eventjson.Counts
	Warnings []string
	More     int // warnings beyond those
}

// checkpoint records the state that later events will be merged with. Consumed is filled in when the checkpoint is
// stored.
func (s *source) checkpoint(tasks *tasktable.Table, defined entities.Definitions) *checkpoint {
	return &checkpoint{Defined: defined, Counts: s.counts, Warnings: slices.Clone(s.warnings.list),
		More: s.warnings.more, Paused: tasks.PausedAttempts()}
}

// encodeCheckpoint returns the session's checkpoint as JSON; nil if there is none, because the tables were taken
// unchanged from an index.
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
		panic(fmt.Sprintf("a checkpoint has no JSON: %v", err)) // cannot happen: all its fields have JSON forms
	}
	return text
}

// objects lists the stored events that the session's tables were made of, sorted by key.
func (s *Session) objects() []blob.Object {
	var all []blob.Object
	for _, progress := range s.read {
		for _, c := range progress.chunks {
			all = append(all, c.Object)
		}
	}
	slices.SortFunc(all, func(a, b blob.Object) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// EventBytes is how many bytes of events, as stored, the session's tables were made of.
func (s *Session) EventBytes() int64 { return storedBytes(s.read) }

// storedBytes adds up the stored sizes of the chunks that were read.
func storedBytes(read map[string]progressOf) (n int64) {
	for _, progress := range read {
		for _, c := range progress.chunks {
			n += c.Object.Size
		}
	}
	return n
}

// IndexedBytes is how many of the EventBytes an index has that the session can be continued from: the one that it was
// loaded from, or one that was accepted since.
func (s *Session) IndexedBytes() int64 { return s.source.index.bytes.Load() }

// AcceptIndex says that an index of the session, as it was read, is stored by now.
func (s *Session) AcceptIndex() {
	s.source.index.bytes.Store(s.EventBytes())
	s.source.index.accepted.Store(s.fingerprint)
}

// IndexStored says that an index of the session, as it was read, is stored: the one that it was loaded from, or one
// that was accepted since.
func (s *Session) IndexStored() bool {
	return s.source.index.used || s.source.index.accepted.Load() == s.fingerprint
}

// loadCheckpoint makes a session of an older index, from, and the events stored since. If the index cannot be
// continued, the session and the error are nil: because an object that it was made of has changed, or because the index
// is damaged, which is reported to the index's owner. The source is then as before any event was read.
func (s *source) loadCheckpoint(ctx context.Context, found *listing, from *Tables) (*Session, error) {
	var c checkpoint
	if err := json.Unmarshal(from.Checkpoint, &c); err != nil {
		s.rejectIndex(from.Fingerprint, fmt.Errorf("%w: its checkpoint: %w", tasktable.ErrDamaged, err))
		return nil, nil
	}
	done, unchanged := progressBefore(found.events, from.Objects, c.Consumed)
	if !unchanged {
		return nil, nil
	}
	tables, err := from.Builder()
	if err == nil && !s.entities.Restore(&from.Set, &c.Defined) {
		err = fmt.Errorf("%w: its checkpoint belongs to other tables", tasktable.ErrDamaged)
	}
	if err != nil {
		s.rejectIndex(from.Fingerprint, err)
		s.resetState()
		return nil, nil
	}
	s.state = state{done: done, counts: c.Counts, first: from.Start, last: from.End,
		warnings: warnings{list: c.Warnings, more: c.More}}
	grown := s.grownStreams(found.events)
	s.expectStreams(grown)
	tables.Reserve = s.opts.Reserve
	damage, err := tables.Restore(ctx, &from.Stored, c.Paused, s.listed+s.entities.MemoryBytes())
	switch {
	case err != nil:
		return nil, err
	case damage != nil && ctx.Err() != nil: // reading was interrupted, which says nothing about the index
		return nil, ctx.Err()
	case damage != nil:
		s.rejectIndex(from.Fingerprint, damage)
		s.resetState()
		return nil, nil
	}
	s.index.bytes.Store(storedBytes(done))
	return s.replayInto(ctx, found, grown, tables)
}

// expectStreams sets the totals of the progress: only these streams are still to be read.
func (s *source) expectStreams(streams []*chunks.Stream) {
	p := s.opts.Progress
	objects, bytes := p.ObjectsDone.Load(), p.BytesDone.Load()
	for _, stream := range streams {
		objects += int64(len(stream.Chunks))
		bytes += stream.Bytes()
	}
	p.ObjectsTotal.Store(objects)
	p.BytesTotal.Store(bytes)
}

// progressBefore computes how far each stream was read when only these objects existed. consumed has the bytes that
// were read of a stream, by its key. unchanged is false if one of the objects was deleted or replaced since, or if a
// chunk was stored since before one of them: then done is of no use. So it is if consumed is no place in a stream:
// because the index is damaged, or because reading the stream panicked (unreadable), which is tried again then.
func progressBefore(streams []*chunks.Stream, objects []blob.Object,
	consumed map[string]int64) (done map[string]progressOf, unchanged bool) {
	missing := make(map[string]blob.Object, len(objects)) // those not found yet
	for _, o := range objects {
		missing[o.Key] = o
	}
	done = make(map[string]progressOf)
	for _, stream := range streams {
		var p progressOf
		for _, c := range stream.Chunks {
			if o, ok := missing[c.Object.Key]; ok {
				if !sameObject(c.Object, o) {
					return nil, false
				}
				delete(missing, o.Key)
				p.chunks = append(p.chunks, c)
			}
		}
		if len(p.chunks) == 0 {
			continue
		}
		p.consumed = consumed[stream.Key]
		last := p.chunks[len(p.chunks)-1]
		beyond := last.Compression == layout.Plain && p.consumed > last.Offset+last.Object.Size
		if p.consumed < 0 || beyond || !p.isStartOf(stream) {
			return nil, false
		}
		done[stream.Key] = p
	}
	return done, len(missing) == 0
}

// grownStreams returns the streams that have more chunks than were read, or others. A stream of which reading panicked
// is left out unless its chunks are others by now.
func (s *source) grownStreams(streams []*chunks.Stream) []*chunks.Stream {
	return slices.DeleteFunc(slices.Clone(streams), func(stream *chunks.Stream) bool {
		done := s.done[stream.Key]
		return done.isStartOf(stream) && (done.consumed == unreadable || len(done.chunks) == len(stream.Chunks))
	})
}
