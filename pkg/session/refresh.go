package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
)

// Refresh returns the session with all that is stored by now: a new Session, or the one that the last Refresh returned
// if nothing was stored since. s itself does not change. Only bytes that were not read before are read. Exception:
// where objects that were read are gone or others by now, as when they were joined, the session is loaded anew.
//
// A session that has ended is refreshed like any other, because workers store their last events after the end. The
// caller decides for how long that is worth a listing.
func (s *Session) Refresh(ctx context.Context) (*Session, error) {
	src := s.source
	if err := src.refreshing.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer src.refreshing.Release(1)
	latest := src.latest
	found, err := src.list(ctx)
	if err != nil {
		return nil, err
	}
	if found.version == src.version {
		return latest, nil
	}
	if err := src.completeListing(ctx, found); err != nil {
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	grown := src.grownStreams(found.events)
	changed := found.sources.Fingerprint != latest.fingerprint
	// The tables are also made of what snapshots say of deaths and, of old Rays, of the names of logs. Those of an
	// ended session are rebuilt whatever changed, because clients cache its answers by its fingerprint.
	runs := found.life.End.IsZero()
	sameTables := len(grown) == 0 &&
		(!changed || runs && latest.hasDeathsOf(found.snapshots) && latest.hasLogsOf(found))
	switch {
	case src.index.used && changed, src.isReplaced(grown):
		// The new source continues from the index, or from a newer one, and lists the events again.
		const trustSettled = false
		return newSource(src.store, src.root, s.Ref, src.opts).load(ctx, trustSettled)
	case src.index.used, sameTables: // only the names of logs and snapshots, and the times in Life, are others
		next := *latest
		next.fingerprint = found.sources.Fingerprint // what is derived from logs and snapshots is derived again
		next.setListing(found)
		next.shareLogs()
		src.latest, src.version = &next, found.version
		return &next, nil
	}
	before := src.state.clone()
	next, err := src.readGrown(ctx, found, grown)
	if err != nil {
		// What is read again is counted again. Rows need no undoing, because reading events twice changes nothing.
		src.state = before
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	src.latest = next
	return next, nil
}

// hasLogsOf reports whether the session's tables say of logs what they would say with a newer listing.
func (s *Session) hasLogsOf(newer *listing) bool {
	return !s.Tasks.LogStartsMissing() || maps.Equal(s.Logs.WorkerLogs(), newer.logs.WorkerLogs())
}

// readGrown makes a session of the latest one and of what was stored since in the grown streams.
func (s *source) readGrown(ctx context.Context, found *listing, grown []*chunks.Stream) (*Session, error) {
	tables, err := s.latest.Tasks.Builder()
	if err != nil {
		return nil, err
	}
	return s.replayInto(ctx, found, grown, tables)
}

func sameChunk(a, b chunks.Chunk) bool { return sameObject(a.Object, b.Object) }

func sameObject(a, b blob.Object) bool { return a.Key == b.Key && a.Size == b.Size && a.ETag == b.ETag }

// isReplaced reports whether one of these streams has other chunks than those that were read. Such a stream cannot be
// read again into the same tables: its events and warnings would count twice.
func (s *source) isReplaced(streams []*chunks.Stream) bool {
	return slices.ContainsFunc(streams,
		func(stream *chunks.Stream) bool { return !s.done[stream.Key].isStartOf(stream) })
}

// isStartOf reports whether the chunks that were read are the first ones of the stream; true if none were.
func (p progressOf) isStartOf(stream *chunks.Stream) bool {
	return len(p.chunks) <= len(stream.Chunks) && slices.EqualFunc(p.chunks, stream.Chunks[:len(p.chunks)], sameChunk)
}
