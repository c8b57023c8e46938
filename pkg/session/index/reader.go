package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
	"golang.org/x/sync/errgroup"
)

// reader reads the tables of one index, several at a time.
type reader struct {
	opener *Opener
	store  blob.Reader
	ref    layout.Session
	stored map[string]int64 // sizes of the stored tables, by key
	memory *memoryBudget

	ctx      context.Context
	group    *errgroup.Group
	metadata *metadata
}

// reader makes the reader of a session's index in one store.
func (o *Opener) reader(store blob.Reader, ref layout.Session, objects []blob.Object,
	reserve func(bytes int64) bool) *reader {
	r := &reader{opener: o, store: store, ref: ref, stored: make(map[string]int64, len(objects)),
		memory: &memoryBudget{reserve: reserve}}
	for _, object := range objects {
		r.stored[object.Key] = object.Size
	}
	return r
}

func (r *reader) key(table string) string { return layout.IndexKey(r.opener.Root, r.ref, table) }

func (r *reader) table(name string, size int64) tablefile.Source {
	return sourceOf(r.store, r.key(name), size, r.memory)
}

// open reads the tables of the index; nil if there is none for the events that are stored now, whose fingerprint this
// is. An error of ctx is returned as it is, any other as ErrDamaged: why the index cannot be used.
func (r *reader) open(ctx context.Context, fingerprint string) (*session.Tables, error) {
	key := r.key(metaTable)
	if r.stored[key] == 0 {
		return nil, nil
	}
	var tables *session.Tables
	err := guard.CatchPanic(key, func() (err error) {
		tables, err = r.read(ctx, fingerprint)
		return err
	})
	switch {
	case err == nil:
		return tables, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errStale):
		r.opener.Log.WithField("session", r.ref.String()).Debug(
			"a session's index was not made from the events that are stored now")
		return nil, nil
	case !errors.Is(err, errRejected):
		r.opener.logUnusable(r.ref, err)
	}
	return nil, fmt.Errorf("%w: %w", tasktable.ErrDamaged, err)
}

// errRejected is an index that was found to be damaged before; that is logged already.
var errRejected = errors.New("it was found to be damaged")

// read reads the index if it was made of the events that have this fingerprint, or of earlier ones so that it can be
// continued. If fingerprint is "", the events were not listed: then only an index that was made after the session
// settled counts. The error is errStale if the index is of other events, and errRejected if it was found to be damaged
// before.
func (r *reader) read(ctx context.Context, fingerprint string) (*session.Tables, error) {
	meta, m, err := readMetadata(ctx, r.table(metaTable, r.stored[r.key(metaTable)]))
	if err != nil {
		return nil, err
	}
	_, hasCheckpoint := m.Tables[checkpointTable]
	upToDate := fingerprint == m.Fingerprint || fingerprint == "" && m.Settled
	continues := !upToDate && fingerprint != "" && hasCheckpoint
	if !upToDate && !continues {
		return nil, errStale
	}
	switch reason := r.opener.whyRejected(r.ref, m.Fingerprint); {
	case errors.Is(reason, tasktable.ErrOutdated):
		if fingerprint == "" { // the session is listed next, and its fingerprint decides
			return nil, errStale
		}
	case reason != nil:
		return nil, fmt.Errorf("%w: %w", errRejected, reason)
	}
	for table, size := range m.Tables {
		if key := r.key(table); r.stored[key] != size {
			return nil, fmt.Errorf("%s has %d bytes, want %d", key, r.stored[key], size)
		}
	}
	r.metadata = m
	r.group, r.ctx = errgroup.WithContext(ctx)
	out := r.readTables()
	if continues {
		r.readCheckpoint(meta, out)
	}
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// sourceOf is a table in a store.
func sourceOf(store blob.Reader, key string, size int64, memory *memoryBudget) tablefile.Source {
	return tablefile.Source{Key: key, Size: size, Take: memory.take,
		Read: func(ctx context.Context, offset, length int64) ([]byte, error) {
			return blob.ReadRange(ctx, store, key, offset, length)
		}}
}

// readTables starts to read all tables, in goroutines of r.group; the result is complete when these have ended without
// an error. Of the table of rows it reads only the footer: rows are read when they are requested.
func (r *reader) readTables() *session.Tables {
	m := r.metadata
	out := &session.Tables{Fingerprint: m.Fingerprint, Start: m.Start, End: m.End, Warnings: m.Warnings,
		Damage: m.Damage}
	out.Rows, out.First, out.States = m.Rows, m.First, m.States
	r.goRead(rowsTableName, func(o tablefile.Source) error {
		rows, err := openRows(r.ctx, o, m)
		if err == nil {
			out.Source, out.GroupBytes = rows, rows.groupBytes
			err = r.memory.take(3 * out.GroupBytes) // as stored, decompressed, and in pages
		}
		return err
	})
	r.goReadAll(textsTable, func(t *tablefile.Table) (err error) {
		out.Strings, err = t.Texts("text")
		return err
	})
	r.goReadDocuments(definitionsTable, 2, func(texts [][]byte) (err error) {
		if out.Definitions, err = decodeAll[eventjson.Definition](texts[0], r.memory.take); err != nil {
			return err
		}
		out.Profilers, err = decodeAll[eventjson.Profiler](texts[1], r.memory.take)
		return err
	})
	readEntities(r, actorsTable, &out.Actors)
	readEntities(r, nodesTable, &out.Nodes)
	readEntities(r, jobsTable, &out.Jobs)
	readEntities(r, submissionsTable, &out.Submissions)
	readEntities(r, workersTable, &out.Workers)
	readEntities(r, groupsTable, &out.PlacementGroups)
	readEntities(r, platformTable, &out.PlatformEvents)
	return out
}

// readCheckpoint starts to read into out, in goroutines of r.group, what replay needs to go on: the checkpoint, and the
// objects that the tables were made of, which are the rows of the table meta.
func (r *reader) readCheckpoint(meta *tablefile.Table, out *session.Tables) {
	r.goReadDocuments(checkpointTable, 1, func(texts [][]byte) error {
		out.Checkpoint = texts[0]
		const largest = 80 // bytes of the largest struct that a checkpoint has a list of
		return r.memory.take(jsonMemory(out.Checkpoint, largest))
	})
	r.goRead(metaTable, func(tablefile.Source) error {
		sources, err := readSources(r.ctx, meta)
		for _, s := range sources {
			out.Objects = append(out.Objects, blob.Object{Key: s.Key, Size: s.Size, ETag: s.ETag})
		}
		return err
	})
}

// goRead calls read in a goroutine of the group with where a table is. A panic becomes an error.
func (r *reader) goRead(name string, read func(tablefile.Source) error) {
	o := r.table(name, r.metadata.Tables[name])
	r.group.Go(func() error { return guard.CatchPanic(o.Key, func() error { return read(o) }) })
}

// goReadAll reads a whole table into memory in a goroutine of the group, and calls read with it. An error of read is
// one of the table.
func (r *reader) goReadAll(name string, read func(*tablefile.Table) error) {
	r.goRead(name, func(o tablefile.Source) error {
		t, err := o.Open(r.ctx)
		if err != nil {
			return err
		}
		if err := r.metadata.checkBelongs(t); err != nil {
			return err
		}
		if err := t.ReadAll(r.ctx); err != nil {
			return err
		}
		return read(t)
	})
}

// goReadDocuments reads a table whose rows are documents in a goroutine of the group, and calls read with their texts.
// Another number of rows than count is damage.
func (r *reader) goReadDocuments(name string, count int, read func(texts [][]byte) error) {
	r.goReadAll(name, func(t *tablefile.Table) error {
		texts, err := t.Texts("bytes")
		if err == nil && len(texts) != count {
			err = fmt.Errorf("%d rows, want %d", len(texts), count)
		}
		if err == nil {
			err = read(texts)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", t.Key, err)
		}
		return nil
	})
}

// readEntities starts to read, in a goroutine of r.group, the entities of a table. Its column "row" has each of them
// whole, as JSON; the other columns are for people.
func readEntities[E any](r *reader, name string, into *[]E) {
	r.goReadAll(name, func(t *tablefile.Table) error {
		rows, err := t.Texts("row")
		if err != nil {
			return err
		}
		if err := r.memory.take(int64(len(rows)) * int64(unsafe.Sizeof(*new(E)))); err != nil {
			return err
		}
		// A row with noRow is about a thing that only the dashboard shows and no event tells of.
		rows = slices.DeleteFunc(rows, func(text []byte) bool { return string(text) == noRow })
		all := make([]E, len(rows))
		for i, text := range rows {
			// Of what rows have lists of, an actor's transitions are the largest structs; twice, because lists grow.
			atMost := jsonMemory(text, 2*int64(unsafe.Sizeof(entities.ActorTransition{})))
			if err := r.memory.take(atMost); err != nil {
				return err
			}
			if err := json.Unmarshal(text, &all[i]); err != nil {
				return fmt.Errorf("read row %d of %s: %w", i, t.Key, err)
			}
			r.memory.giveBack(atMost - entities.MemoryBytes(&all[i]))
		}
		*into = all
		return nil
	})
}

// errTooLarge is an index that takes more memory than the server has for it. Its events are replayed, which takes less.
var errTooLarge = errors.New("it needs more memory than is free; raise --session-cache-max-memory")

// minBudget is what opening an index may take however little memory there is: for less, replaying events is not worth
// it.
const minBudget = 32 << 20

// memoryBudget counts the memory that opening an index takes. Files from outside say how much that is, so it is counted
// before it is allocated. It is safe for concurrent use.
type memoryBudget struct {
	reserve func(bytes int64) bool // see session.Options; nil: there is no bound

	mu    sync.Mutex
	taken int64
}

// take adds n to the bytes that the index takes. It returns errTooLarge if the load may not use so much memory;
// minBudget it always may. After that error the index is given up, so what was refused stays counted.
func (b *memoryBudget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 || n > math.MaxInt64-b.taken {
		return errTooLarge
	}
	b.taken += n
	if b.reserve != nil && !b.reserve(b.taken) && b.taken > minBudget {
		return errTooLarge
	}
	return nil
}

// giveBack returns what was taken and is not needed any more.
func (b *memoryBudget) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
}
