package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
)

// Refresh returns the session with what was stored since it was made, or the session it became before if nothing was. s
// itself does not change. Only bytes that were not read before are read. If an object changed, which should not happen,
// its whole stream is read again.
//
// A session that has ended is refreshed like any other, because workers store their last events after the end. The
// caller decides for how long that is worth a listing.
func (s *Session) Refresh(ctx context.Context) (*Session, error) {
	src := s.source
	src.refreshing.Lock()
	defer src.refreshing.Unlock()
	latest := src.latest
	found, err := listSession(ctx, src.store, src.root, s.Ref, &src.opts)
	if err != nil {
		return nil, err
	}
	if found.version == src.version {
		return latest, nil
	}
	if err := src.equip(ctx, found); err != nil {
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	grown := src.grown(found.events)
	changed := found.sources.Fingerprint != latest.fingerprint
	switch {
	case src.indexed && changed:
		// continues from the index, or from a newer one
		return load(ctx, src.store, src.root, s.Ref, src.opts, (*source).loadListed)
	case src.indexed, len(grown) == 0 && (found.life.End.IsZero() || !changed):
		next := *latest
		next.Logs, next.Snapshots, next.Foreign = found.logs, found.snapshots, found.foreign
		next.Life, next.EndStored, next.stored = found.life, found.endStored, found.version.last
		src.latest, src.version = &next, found.version
		return &next, nil
	}
	goBack := src.mark()
	next, err := src.readGrown(ctx, found, grown)
	if err != nil {
		goBack()
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	src.latest = next
	return next, nil
}

// readGrown makes a session of the latest one and what the grown streams have more.
func (s *source) readGrown(ctx context.Context, found *listing, grown []*chunks.Stream) (*Session, error) {
	// The tables of an ended session are rebuilt whatever changed, because clients cache its answers by its
	// fingerprint.
	tables, err := s.latest.Tasks.Builder()
	if err != nil {
		return nil, err
	}
	if err := s.replayAll(ctx, s.latest.Ref, grown, tables); err != nil {
		return nil, err
	}
	return s.assemble(ctx, s.latest.Ref, found, tables)
}

// mark returns a function that sets how far the source was read, and the warnings about that, to what they are now:
// what is read again is counted again. Rows need no undoing, because reading events twice changes nothing.
func (s *source) mark() (goBack func()) {
	done, counts, warnings, more := maps.Clone(s.done), s.counts, slices.Clone(s.warnings.list), s.warnings.more
	return func() {
		s.done, s.counts = done, counts
		s.warnings.list, s.warnings.more = warnings, more
	}
}

func sameChunk(a, b chunks.Chunk) bool { return sameObject(a.Object, b.Object) }

func sameObject(a, b blob.Object) bool { return a.Key == b.Key && a.Size == b.Size && a.ETag == b.ETag }

// resume returns the offset at which to continue reading a stream: 0 if a chunk that was read before has been replaced.
func (p progressOf) resume(stream *chunks.Stream) int64 {
	if len(p.chunks) > len(stream.Chunks) || !slices.EqualFunc(p.chunks, stream.Chunks[:len(p.chunks)], sameChunk) {
		return 0
	}
	return p.consumed
}
