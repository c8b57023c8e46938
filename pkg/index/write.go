package index

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// text is a row of the table "texts", which the server's columns refer to by place; the first is number 1.
type text struct {
	Text []byte `parquet:"text"`
}

// Write stores the index of a session, as it was when it was read. rows, if set, is told of the rows written: two for each
// attempt.
//
// Tables are made in temporary files. Their names for each other change with each index and meta is written last, so what is there at any
// instant is a whole index or none.
func Write(ctx context.Context, to *Target, s *session.Session, rows func(n int)) error {
	if rows == nil {
		rows = func(int) {}
	}
	if err := write(ctx, to, s, rows); err != nil {
		return fmt.Errorf("index session %s: %w", s.Ref, err)
	}
	return nil
}

func write(ctx context.Context, to *Target, s *session.Session, rows func(n int)) error {
	dir, err := os.MkdirTemp("", "rayhistory-index-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &builder{dir: dir, session: s, tables: s.Tables(), generation: rand.Text(), rows: rows}
	b.owner = owner{Session: s.Ref.Name, Cluster: s.Ref.Cluster, Namespace: s.Ref.Namespace}
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := s.Tasks.Err(); err != nil {
		return err
	}
	f := factsOf(b.tables, s.Fingerprint(), b.generation)
	f.Settled = hasSettled(s)
	for _, table := range b.written {
		if f.Tables[table], err = putFile(ctx, to, layout.IndexKey(to.Root, s.Ref, table), b.path(table)); err != nil {
			return err
		}
	}
	sources := make([]source, len(b.tables.Objects))
	for i, o := range b.tables.Objects {
		sources[i] = source{b.owner, o.Key, o.Size, o.ETag}
	}
	meta, err := encodeMeta(f, sources)
	if err != nil {
		return err
	}
	if err := to.put(ctx, layout.IndexKey(to.Root, s.Ref, metaTable), bytes.NewReader(meta)); err != nil {
		return err
	}
	return to.done(ctx)
}

// putFile stores a file and gives its size.
func putFile(ctx context.Context, to *Target, key, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), to.put(ctx, key, f)
}

// writerOptions are those of all tables; groupRows 0 leaves it to the caller where row groups end.
func writerOptions(generation string, groupRows int64) []parquet.WriterOption {
	options := []parquet.WriterOption{parquet.CreatedBy(application, "", ""), parquet.KeyValueMetadata(generationKey, generation)}
	if groupRows > 0 {
		options = append(options, parquet.MaxRowsPerRowGroup(groupRows))
	}
	return options
}

// builder makes the tables of one index, a file each.
type builder struct {
	dir        string
	session    *session.Session
	tables     *session.Tables
	owner      owner
	generation string
	rows       func(n int)
	written    []string
}

func (b *builder) path(table string) string { return filepath.Join(b.dir, table) }

func (b *builder) create(table string) (*os.File, error) {
	b.written = append(b.written, table)
	return os.Create(b.path(table))
}

// build makes all tables but meta.
func (b *builder) build(ctx context.Context) error {
	if _, err := exactJSON(b.tables.Warnings); err != nil {
		return err
	}
	if err := b.small(); err != nil {
		return err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for _, table := range []string{rowsTableName, tasksTable, taskEventsTable, profileTable} {
		f, err := b.create(table)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var g errgroup.Group
	rows := func(n int) {
		if ctx.Err() == nil {
			b.rows(n)
		}
	}
	g.Go(func() error { return writeRows(&cancellable{ctx, files[0]}, b.tables, b.generation, rows) })
	g.Go(func() error {
		// Rows that are not in memory are read in the order they have; any other would read each group many times.
		w := newTaskWriter(b.owner, b.generation, b.session.Tasks.InMemory(), &cancellable{ctx, files[1]}, &cancellable{ctx, files[2]}, &cancellable{ctx, files[3]})
		return w.write(b.session.Tasks, rows)
	})
	return g.Wait()
}

// cancellable is a writer that fails when its context ends.
type cancellable struct {
	ctx context.Context
	w   io.Writer
}

func (c *cancellable) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// small makes the tables that are made at once.
func (b *builder) small() error {
	texts := make([]text, len(b.tables.Texts))
	for i := range texts {
		texts[i].Text = b.tables.Texts[i]
	}
	if err := writeTable(b, textsTable, texts); err != nil {
		return err
	}
	if err := writeTable(b, definitionsTable, b.tables.Definitions); err != nil {
		return err
	}
	if err := writeTable(b, profilersTable, b.tables.Profilers); err != nil {
		return err
	}
	if b.tables.Checkpoint != nil {
		if err := writeTable(b, checkpointTable, []checkpoint{{b.tables.Checkpoint}}); err != nil {
			return err
		}
	}
	if err := writeEntities(b, actorsTable, b.tables.Actors, newActorRow); err != nil {
		return err
	}
	if err := writeEntities(b, nodesTable, b.tables.Nodes, newNodeRow); err != nil {
		return err
	}
	if err := writeEntities(b, jobsTable, b.tables.Jobs, newJobRow); err != nil {
		return err
	}
	if err := writeEntities(b, submissionsTable, b.tables.Submissions, newSubmissionRow); err != nil {
		return err
	}
	if err := writeEntities(b, workersTable, b.tables.Workers, newWorkerRow); err != nil {
		return err
	}
	return writeEntities(b, groupsTable, b.tables.PlacementGroups, newGroupRow)
}

func writeEntities[E, R any](b *builder, table string, all []E, row func(entity, *E) R) error {
	rows, err := entityRows(b.owner, all, row)
	if err != nil {
		return err
	}
	return writeTable(b, table, rows)
}

func writeTable[T any](b *builder, table string, rows []T) (err error) {
	f, err := b.create(table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := parquet.NewGenericWriter[T](f, writerOptions(b.generation, 0)...)
	if _, err := out.Write(rows); err != nil {
		return err
	}
	return out.Close()
}
