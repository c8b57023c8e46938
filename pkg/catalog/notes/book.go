package notes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxNotes is how many notes a Book knows if its options do not say so. Pages show no more. Further pins still count,
// because removal reads them from the store.
const maxNotes = 10_000

// maxWait is how long a change waits for other changes of the same namespace.
const maxWait = 10 * time.Second

// BookOptions are the options of a Book.
type BookOptions struct {
	Store blob.Store
	Root  string
	// Interval is the time between two listings of the notes; 1 min if 0.
	Interval time.Duration
	// Max is how many notes are known; 10,000 if 0. More are an error of Refresh.
	Max int
	Log logrus.FieldLogger
}

// Book knows all notes, as they were at the last listing, for the list of sessions. Safe for concurrent use.
type Book struct {
	opts BookOptions
	work background.Worker
	// changes has one slot, so changes run one at a time. In parallel they could create the same version of a note, and
	// all but one would have to begin again.
	changes *turns.Slots

	mu     sync.Mutex
	notes  map[layout.Session]cachedNote
	writes int // number of writes by this process: a listing that began before a write is older
}

type cachedNote struct {
	note Note
	etag string // "" where this process wrote it
}

// NewBook makes an empty Book. Start fills it.
func NewBook(opts BookOptions) *Book {
	opts.Interval = cmp.Or(opts.Interval, time.Minute)
	opts.Max = cmp.Or(opts.Max, maxNotes)
	return &Book{opts: opts, changes: turns.New(1, turns.NoLimit), notes: make(map[layout.Session]cachedNote)}
}

// Start reads the notes in the background until Close.
func (b *Book) Start() {
	b.work.Start(func(ctx context.Context) {
		var before error // of the last reading
		for ctx.Err() == nil {
			err := guard.CatchPanic("the notes on sessions", func() error { return b.Refresh(ctx) })
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && before == nil:
				b.opts.Log.WithError(err).Warn(
					"cannot read the notes on sessions; pages show the earlier ones, and pins still count")
			case err == nil && before != nil:
				b.opts.Log.Info("the notes on sessions can be read again")
			}
			before = err
			_ = backoff.Sleep(ctx, b.opts.Interval)
		}
	})
}

// Close stops reading, and waits until it has stopped.
func (b *Book) Close() { b.work.Close() }

// Refresh lists the notes, and reads those that have changed. A note that cannot be read stays as it was; the error
// says so of one. Nothing changes if this process wrote a note meanwhile, because the listing may lack it.
func (b *Book) Refresh(ctx context.Context) error {
	b.mu.Lock()
	known, writes := b.notes, b.writes
	b.mu.Unlock()
	listed, failed := b.listNewest(ctx)
	if listed == nil {
		return failed
	}
	notes := make(map[layout.Session]cachedNote)
	for ref, object := range listed {
		before, seen := known[ref]
		if seen && before.etag == object.ETag && object.ETag != "" {
			notes[ref] = before
			continue
		}
		found, err := readNote(ctx, b.opts.Store, object.Key)
		note := found.Note
		if errors.Is(err, os.ErrNotExist) { // since the listing a later version has replaced it, or it was removed
			note, err = Read(ctx, b.opts.Store, b.opts.Root, ref)
		}
		switch {
		case err == nil:
			notes[ref] = cachedNote{note, object.ETag}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			failed = err // one error is enough to report
			if seen {
				notes[ref] = before
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writes == writes {
		b.notes = notes
	}
	return failed
}

// listNewest returns the newest version of each note. If there are more than Options.Max notes, it returns so many and
// an error. After an error of the store the map is nil.
func (b *Book) listNewest(ctx context.Context) (map[layout.Session]version, error) {
	listed := make(map[layout.Session]version)
	var failed error
	for o, err := range b.opts.Store.List(ctx, layout.NotesPrefix(b.opts.Root), blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the notes on sessions: %w", err)
		}
		ref, number, err := layout.ParseNote(b.opts.Root, o.Key)
		if err != nil {
			continue
		}
		before, known := listed[ref]
		if !known && len(listed) == b.opts.Max {
			failed = fmt.Errorf("there are more than %d notes: the others are not shown", b.opts.Max)
			break
		}
		if this := (version{o, number}); this.newerThan(before) {
			listed[ref] = this
		}
	}
	return listed, failed
}

// Of returns the note on a session, the zero Note if none is known.
func (b *Book) Of(ref layout.Session) Note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notes[ref].note
}

// Read reads the note on a session from the store.
func (b *Book) Read(ctx context.Context, ref layout.Session) (Note, error) {
	return Read(ctx, b.opts.Store, b.opts.Root, ref)
}

// Change reads the note on a session, lets change modify it, and stores it, as the function Change does: two people who
// change different parts of a note both keep their change. It waits at most maxWait for its turn. After ErrBusy the
// note is stored too.
func (b *Book) Change(ctx context.Context, ref layout.Session, change func(*Note) error) (Note, error) {
	ctx, done, err := b.changes.Take(ctx, ref.Namespace, maxWait)
	if err != nil {
		return Note{}, err
	}
	defer done()
	n, err := Change(ctx, b.opts.Store, b.opts.Root, ref, change)
	if err != nil && !errors.Is(err, ErrBusy) {
		return Note{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes++
	b.notes = maps.Clone(b.notes) // the old one may be read by Refresh
	b.notes[ref] = cachedNote{note: n}
	return n, err
}
