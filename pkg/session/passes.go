package session

import (
	"context"
	"sync"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// A session whose rows would take more memory than its load may hold is read in passes. Each pass keeps the tasks of
// some shards and writes their rows to a file at its end. A pass begins with all shards that are left; when the load
// may not hold more, it drops the last of them, and a later pass begins there. So memory is bounded however large a
// session is; the price is reading it several times.

// beginPass begins a pass over streams. The function that it returns sets the totals of the progress for a number of
// passes to follow.
func beginPass(p *progress.Counter, streams []*chunks.Stream) (expect func(more int)) {
	objects, bytes := int64(0), int64(0)
	for _, s := range streams {
		objects += int64(len(s.Chunks))
		bytes += s.Bytes()
	}
	objectsBefore, bytesBefore := p.ObjectsDone.Load(), p.BytesDone.Load()
	return func(more int) {
		p.ObjectsTotal.Store(objectsBefore + objects*int64(1+more))
		p.BytesTotal.Store(bytesBefore + bytes*int64(1+more))
	}
}

// loadInPasses makes a session by calling pass, which fills the tables, as often as needed: once if memory holds all
// rows.
func (s *source) loadInPasses(ctx context.Context, ref layout.Session, found *listing, tables *tasktable.Builder,
	pass func(*tasktable.Builder) error) (*Session, error) {
	if err := pass(tables); err != nil {
		return nil, err
	}
	if tables.Complete() {
		return s.assemble(ctx, ref, found, tables)
	}
	file, err := tasktable.NewFile()
	if err != nil {
		return nil, err
	}
	counts := s.counts
	var paused []tasktable.PausedAttempt
	for {
		out, err := s.assembleInto(ctx, file, ref, found, tables)
		if err != nil {
			return nil, err
		}
		paused = append(paused, out.checkpoint.Paused...)
		if tables.Last() {
			if err := file.Complete(); err != nil {
				return nil, err
			}
			out.Tasks.TakeRows(file)
			out.checkpoint.Paused = paused
			s.filed = true
			return out, nil
		}
		tables.Next()
		s.warnings.mute()
		if err := pass(tables); err != nil {
			return nil, err
		}
		s.counts = counts
	}
}

// filing is held while rows are written to a file. That takes more memory than the rows themselves, so only one load
// may do it at a time.
var filing sync.Mutex

// assembleInto makes a session of one pass and writes its rows to a file.
func (s *source) assembleInto(ctx context.Context, file *tasktable.File, ref layout.Session, found *listing,
	tables *tasktable.Builder) (*Session, error) {
	filing.Lock()
	defer filing.Unlock()
	out, err := s.assemble(ctx, ref, found, tables)
	if err != nil {
		return nil, err
	}
	return out, file.Add(out.Tasks)
}
