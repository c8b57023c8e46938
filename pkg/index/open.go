package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Opener finds the indexes of sessions. It implements session.Index.
type Opener struct {
	Store blob.Reader
	// Cache, if set, is looked into as well: indexes that could not be put into Store.
	Cache *Cache
	Root  string
	Log   logrus.FieldLogger

	mu       sync.Mutex
	rejected map[layout.Session]string // fingerprint of the sources that the damaged index was made of
}

// Reject implements session.Index.
func (o *Opener) Reject(ref layout.Session, fingerprint string, reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rejected == nil {
		o.rejected = make(map[layout.Session]string)
	}
	o.rejected[ref] = fingerprint
	o.Log.WithError(reason).WithField("session", ref.String()).Warn("a session's index is damaged; its events are replayed")
}

// Accept takes back Reject: the session's index was made anew.
func (o *Opener) Accept(ref layout.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rejected, ref)
}

func (o *Opener) isRejected(ref layout.Session, fingerprint string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rejected[ref] == fingerprint
}

// Open implements session.Index. What is damaged or of another version is told in the log and not used.
func (o *Opener) Open(ctx context.Context, ref layout.Session, sources session.Sources) (*session.Tables, error) {
	stored := make(map[string]int64, len(sources.Index))
	for _, object := range sources.Index {
		stored[object.Key] = object.Size
	}
	tables, err := o.openIn(ctx, o.Store, ref, sources.Fingerprint, stored)
	if tables == nil && err == nil && o.Cache != nil && sources.Fingerprint != "" {
		store, stored, err := o.Cache.list(ctx, o.Root, ref)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			o.Log.WithError(err).Warn("cannot look for a session's index in --index-cache-dir")
		case store != nil:
			return o.openIn(ctx, store, ref, sources.Fingerprint, stored)
		}
	}
	return tables, err
}

// openIn opens the index that one store holds; nil if there is none that can be used.
func (o *Opener) openIn(ctx context.Context, store blob.Reader, ref layout.Session, fingerprint string, stored map[string]int64) (*session.Tables, error) {
	if stored[layout.IndexKey(o.Root, ref, metaTable)] == 0 {
		return nil, nil
	}
	tables, err := o.openTables(ctx, store, ref, fingerprint, stored)
	log := o.Log.WithField("session", ref.String())
	switch {
	case err == nil:
		return tables, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errStale):
		log.Debug("a session's index is not one of what is stored now")
	default:
		log.WithError(err).Warn("cannot use a session's index; its events are replayed")
	}
	return nil, nil
}

// openTables reads all but the rows, which are read when they are asked for.
func (o *Opener) openTables(ctx context.Context, store blob.Reader, ref layout.Session, fingerprint string, stored map[string]int64) (*session.Tables, error) {
	root := o.Root
	key := layout.IndexKey(root, ref, metaTable)
	meta := &object{store: store, key: key, size: stored[key]}
	metaFile, f, err := meta.facts(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.check(root, ref, stored); err != nil {
		return nil, err
	}
	_, canGrow := f.Tables[checkpointTable]
	asked := fingerprint == f.Fingerprint || (fingerprint == "" && f.Settled)
	grows := !asked && fingerprint != "" && canGrow
	if o.isRejected(ref, f.Fingerprint) || !(asked || grows) {
		return nil, errStale
	}
	out := &session.Tables{Fingerprint: f.Fingerprint, Rows: f.Rows, First: f.First, States: f.States, Start: f.Start, End: f.End, Warnings: f.Warnings, Damage: f.Damage}
	r := &tableReader{store: store, root: root, ref: ref, facts: f}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		rows, err := openRows(ctx, r.object(rowsTableName), f)
		out.Source = rows
		return err
	})
	g.Go(func() error {
		texts, err := readTable[text](ctx, r, textsTable)
		for i := range texts {
			out.Texts = append(out.Texts, texts[i].Text)
		}
		return err
	})
	g.Go(func() (err error) {
		out.Definitions, err = readTable[session.Definition](ctx, r, definitionsTable)
		return err
	})
	g.Go(func() (err error) {
		out.Profilers, err = readTable[session.Profiler](ctx, r, profilersTable)
		return err
	})
	g.Go(func() error { return readEntities[actorRow](ctx, r, actorsTable, &out.Actors) })
	g.Go(func() error { return readEntities[nodeRow](ctx, r, nodesTable, &out.Nodes) })
	g.Go(func() error { return readEntities[jobRow](ctx, r, jobsTable, &out.Jobs) })
	g.Go(func() error { return readEntities[submissionRow](ctx, r, submissionsTable, &out.Submissions) })
	g.Go(func() error { return readEntities[workerRow](ctx, r, workersTable, &out.Workers) })
	g.Go(func() error { return readEntities[groupRow](ctx, r, groupsTable, &out.PlacementGroups) })
	if grows {
		g.Go(func() error {
			rows, err := readTable[checkpoint](ctx, r, checkpointTable)
			if err == nil && len(rows) != 1 {
				err = fmt.Errorf("the table %s has %d rows, want 1", checkpointTable, len(rows))
			}
			if err == nil {
				out.Checkpoint = rows[0].State
			}
			return err
		})
		g.Go(func() error {
			sources, err := readRows[source](metaFile, meta)
			for _, s := range sources {
				out.Objects = append(out.Objects, blob.Object{Key: s.Key, Size: s.Size, ETag: s.ETag})
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// tableReader reads the tables of one index.
type tableReader struct {
	store blob.Reader
	root  string
	ref   layout.Session
	facts *facts
}

func (r *tableReader) object(table string) *object {
	return &object{store: r.store, key: layout.IndexKey(r.root, r.ref, table), size: r.facts.Tables[table]}
}

// readTable reads all rows of a table.
func readTable[T any](ctx context.Context, r *tableReader, table string) ([]T, error) {
	o := r.object(table)
	file, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.facts.belongs(file, o.key); err != nil {
		return nil, err
	}
	return readRows[T](file, o)
}

func readRows[T any](file *parquet.File, o *object) ([]T, error) {
	in := parquet.NewGenericReader[T](file)
	defer func() { _ = in.Close() }()
	all := make([]T, file.NumRows())
	for n := 0; n < len(all); {
		m, err := in.Read(all[n:])
		n += m
		if err != nil && (n < len(all) || !errors.Is(err, io.EOF)) {
			return nil, fmt.Errorf("read %s: %w", o.key, err)
		}
	}
	return all, nil
}

// readEntities reads a small table: of each row the column that holds all of it.
func readEntities[R interface{ whole() string }, E any](ctx context.Context, r *tableReader, table string, into *[]E) error {
	rows, err := readTable[R](ctx, r, table)
	if err != nil {
		return err
	}
	all := make([]E, len(rows))
	for i := range rows {
		if err := json.Unmarshal([]byte(rows[i].whole()), &all[i]); err != nil {
			return fmt.Errorf("read row %d of %s: %w", i, table, err)
		}
	}
	*into = all
	return nil
}
