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

// maxWait is how long a change waits for those of others.
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
	// changes has one slot: of several who create the same version of a note, all but one have to begin again.
	changes *turns.Slots

	mu     sync.Mutex
	pages  map[layout.Session]page
	writes int // number of writes by this process: a listing that began before a write is older
}

type page struct {
	note Note
	etag string // "" where this process wrote it
}

// NewBook makes an empty one. Start fills it.
func NewBook(opts BookOptions) *Book {
	opts.Interval = cmp.Or(opts.Interval, time.Minute)
	opts.Max = cmp.Or(opts.Max, maxNotes)
	return &Book{opts: opts, changes: turns.New(1, 0), pages: make(map[layout.Session]page)}
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

// Close ends what Start began.
func (b *Book) Close() { b.work.Close() }

// Refresh lists the notes, and reads those that are new.
func (b *Book) Refresh(ctx context.Context) error {
	b.mu.Lock()
	known, writes := b.pages, b.writes
	b.mu.Unlock()
	listed, failed := b.list(ctx)
	if listed == nil {
		return failed
	}
	pages := make(map[layout.Session]page)
	for ref, object := range listed {
		before, seen := known[ref]
		if seen && before.etag == object.ETag && object.ETag != "" {
			pages[ref] = before
			continue
		}
		found, err := read(ctx, b.opts.Store, object.Key)
		note := found.Note
		if errors.Is(err, os.ErrNotExist) { // there is a later one by now, or none
			note, err = Read(ctx, b.opts.Store, b.opts.Root, ref)
		}
		switch {
		case err == nil:
			pages[ref] = page{note, object.ETag}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			failed = err // one error is enough to report
			if seen {
				pages[ref] = before
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writes == writes { // else the listing may lack a note that was written meanwhile
		b.pages = pages
	}
	return failed
}

// list returns the newest version of each note, together with an error if there are more than are known. Without any it
// is an error of the store.
func (b *Book) list(ctx context.Context) (map[layout.Session]version, error) {
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
		if this := (version{o, number}); this.follows(before) {
			listed[ref] = this
		}
	}
	return listed, failed
}

// Of returns the note on a session, the zero Note if none is known.
func (b *Book) Of(ref layout.Session) Note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pages[ref].note
}

// Read reads the note on a session from the store.
func (b *Book) Read(ctx context.Context, ref layout.Session) (Note, error) {
	return Read(ctx, b.opts.Store, b.opts.Root, ref)
}

// Change reads the note on a session, lets change modify it, and stores it, as the function Change does: two people who
// change different parts of a note both keep their change.
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
	b.pages = maps.Clone(b.pages) // the old one may be read by Refresh
	b.pages[ref] = page{note: n}
	return n, err
}
