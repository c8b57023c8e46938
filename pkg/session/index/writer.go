package index

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Writer stores indexes where its Opener finds them: in the sessions' own store or, if that does not allow it, in the
// Opener's Cache. Without a Cache a refusal of the store is an error.
type Writer struct {
	*Opener
	// Put stores an object in the sessions' own store.
	Put func(ctx context.Context, key string, body io.ReadSeeker) error
	// Jobs, if set, returns what the dashboard shows of a session's jobs, which is more than events have.
	Jobs func(ctx context.Context, s *session.Session) ([]Job, error)
	// Findings, if set, returns the text to keep of a session's findings; nil if that is the same as kept. kept is the
	// text that is kept already, or nil. ErrPartial: there is none.
	Findings func(ctx context.Context, s *session.Session, kept io.Reader) ([]byte, error)
	// Metrics, if set, stores the metrics of a session that has ended as tables of their own, unless there are such
	// tables already and they are up to date; with force always.
	Metrics func(ctx context.Context, ref layout.Session, force bool) error
	// Written, if set, is called after something was stored about a session. If the session was removed in the
	// meantime, it deletes that again: nobody else would.
	Written func(ctx context.Context, ref layout.Session) error

	denied blob.Denied
}

// ErrPartial says that findings are not kept, because not everything that they are made of could be read.
var ErrPartial = errors.New("some stored data that the findings need could not be read")

// Write stores the index of a session, as it was when it was read. progress, if set, is called with numbers of rows
// written: two for each attempt.
//
// Tables are made in temporary files. The generation in them changes with each index and meta is written last, so what
// is stored at any instant is a complete index or none.
func (w *Writer) Write(ctx context.Context, s *session.Session, progress func(rows int)) error {
	if progress == nil {
		progress = func(int) {}
	}
	// A panic over damaged rows leaves no index, and nothing else.
	if err := guard.CatchPanic(s.Ref.String(), func() error { return w.write(ctx, s, progress) }); err != nil {
		return fmt.Errorf("index session %s: %w", s.Ref, err)
	}
	return nil
}

// WriteMetrics stores the tables of the metrics of a session that has ended, if Metrics is set; force stores them even
// if those stored are up to date. If that fails, queries are answered from the metrics' chunks. The error is one of
// blob.IsDenied if the store may not be written, and ctx's; any other is logged here too.
func (w *Writer) WriteMetrics(ctx context.Context, ref layout.Session, force bool) error {
	if w.Metrics == nil {
		return nil
	}
	if w.denied.Holds() {
		return blob.ErrPermission
	}
	err := guard.CatchPanic(ref.String(), func() (err error) {
		defer func() { err = errors.Join(err, w.endWriting(ctx, ref)) }() // some tables may be stored after an error
		return w.Metrics(ctx, ref, force)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case blob.IsDenied(err):
		return err
	case err != nil:
		w.Log.WithError(err).WithField("session", ref.String()).Warn(
			"cannot index a session's metrics; queries read their chunks")
	}
	return err
}

// write makes a session's tables in temporary files and stores them, and then the table meta, which names them: until
// then an older index counts.
func (w *Writer) write(ctx context.Context, s *session.Session, progress func(rows int)) (err error) {
	b := &builder{session: s, tables: s.Tables(), generation: rand.Text(), progress: progress, owner: ownerOf(s)}
	defer b.close()
	var shown []Job
	if w.Jobs != nil {
		if shown, err = w.Jobs(ctx, s); err != nil {
			return fmt.Errorf("read its jobs as the dashboard shows them: %w", err)
		}
	}
	if err := b.build(ctx, shown); err != nil {
		return err
	}
	if err := s.Tasks.Err(); err != nil {
		return err
	}
	if s.Archived() {
		return errors.New("the store has archived some of what it is made of: restore that first")
	}
	m := newMetadata(b.tables, s.Fingerprint(), b.generation, b.groupBytes)
	m.Settled = hasSettled(s)
	defer func() { err = errors.Join(err, w.endWriting(ctx, s.Ref)) }() // some tables may be stored after an error
	// All of an index is in one place: if the store refuses to be written now, the rest goes to the cache, too, even
	// if the refusal no longer counts by then.
	put := w.put
	if w.denied.Holds() {
		put = w.Cache.put
	}
	for _, table := range b.written {
		if m.Tables[table.name], err = table.file.Seek(0, io.SeekEnd); err != nil { // its size
			return err
		}
		if err := put(ctx, layout.IndexKey(w.Root, s.Ref, table.name), table.file); err != nil {
			return err
		}
	}
	sources := make([]source, len(b.tables.Objects))
	for i, o := range b.tables.Objects {
		sources[i] = source{b.owner, o.Key, o.Size, o.ETag}
	}
	meta, err := m.encode(sources)
	if err != nil {
		return err
	}
	return put(ctx, layout.IndexKey(w.Root, s.Ref, metaTable), bytes.NewReader(meta))
}

// writtenTime bounds what is done after writing, which goes on when writing was told to stop.
const writtenTime = 10 * time.Second

// endWriting must be called after writing something about a session: it keeps the cache within its size or, if the
// store was written, calls w.Written.
func (w *Writer) endWriting(ctx context.Context, ref layout.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writtenTime)
	defer cancel()
	switch {
	case w.denied.Holds():
		return w.Cache.trim(ctx, w.Root)
	case w.Written != nil:
		return w.Written(ctx, ref)
	}
	return nil
}

// put stores an object in the store or, where that may not be written, in the cache.
func (w *Writer) put(ctx context.Context, key string, body io.ReadSeeker) error {
	if !w.denied.Holds() {
		err := w.Put(ctx, key, body)
		switch {
		case !blob.IsDenied(err):
			return err
		case w.Cache == nil:
			return fmt.Errorf("%w; allow writing below %s/index/ or set --index-cache-dir", err, w.Root)
		}
		if w.denied.Set() {
			w.Log.WithError(err).Warn("indexes may not be written to the store; they are kept in --index-cache-dir")
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return w.Cache.put(ctx, key, body)
}
