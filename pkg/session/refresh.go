package session

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// reloadAfter is how many times as long as reading a session took it is shown as it was then, where anything new means to read all again.
const reloadAfter = 10

// Refresh gives the session with what was stored since it was made; s itself if that is nothing. s goes on being what it is. Only bytes
// that were not read before are read, unless an object changed that should not have: then its whole is.
func (s *Session) Refresh(ctx context.Context) (*Session, error) {
	src := s.source
	src.refreshing.Lock()
	defer src.refreshing.Unlock()
	latest := src.latest
	if latest.Ended {
		return latest, nil
	}
	inv, err := takeInventory(ctx, src.store, src.root, s.Ref, src.opts.Progress)
	if err != nil {
		return nil, err
	}
	if inv.seal == src.seal {
		return latest, nil
	}
	grown := src.grown(inv.events)
	if src.indexed && inv.sources.Fingerprint != latest.fingerprint {
		return Load(ctx, src.store, src.root, s.Ref, src.opts) // Load goes on from the index or a newer one
	}
	if len(grown) > 0 && src.filed {
		if time.Since(src.loaded) < reloadAfter*src.took {
			return latest, nil
		}
		return Load(ctx, src.store, src.root, s.Ref, src.opts) // a file of rows is not added to
	}
	if len(grown) == 0 || src.indexed {
		next := *latest
		next.Logs, next.Snapshots, next.Foreign, next.Ended, next.stored = inv.logs, inv.snapshots, inv.foreign, inv.ended, time.Time{}
		src.latest, src.seal = &next, inv.seal
		return &next, nil
	}
	if room := src.opts.Room; room != nil && !room(latest.Tasks.memory()) {
		return Load(ctx, src.store, src.root, s.Ref, src.opts) // there is none for a second copy of the rows
	}
	tables := latest.Tasks.thaw()
	if err := src.replayAll(ctx, s.Ref, grown, tables, nil); err != nil {
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	next, err := src.assemble(ctx, s.Ref, inv, tables)
	if err != nil {
		return nil, fmt.Errorf("refresh session %s: %w", s.Ref, err)
	}
	src.latest = next
	return next, nil
}

func sameChunk(a, b chunk) bool {
	return a.object.Key == b.object.Key && a.object.Size == b.object.Size && a.object.ETag == b.object.ETag
}

// resume says where in w to go on reading: from the start if what was read before is not what it was.
func (p progressOf) resume(w *whole) int64 {
	if len(p.chunks) > len(w.chunks) || !slices.EqualFunc(p.chunks, w.chunks[:len(p.chunks)], sameChunk) {
		return 0
	}
	return p.consumed
}
