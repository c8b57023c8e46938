package index

import (
	"context"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/pkg/session"
)

// text is a row of the table "texts", the string table. The server's columns refer to it by row number, counted from 1.
type text struct {
	Text []byte `parquet:"text"`
}

// writerOptions are the options that all tables of an index share. generation tells its tables from those of others.
func writerOptions(generation string) []parquet.WriterOption {
	return []parquet.WriterOption{parquet.CreatedBy(application, "", ""),
		parquet.KeyValueMetadata(generationKey, generation)}
}

// builder makes the tables of one index, a temporary file each.
type builder struct {
	session    *session.Session
	tables     *session.Tables
	owner      owner
	generation string
	progress   func(rows int) // is told how many more rows were written
	written    []tableFile
	groupBytes int64 // see metadata
}

// tableFile is a table in its file.
type tableFile struct {
	name string
	file *os.File
}

// create makes the file of a table, which close closes.
func (b *builder) create(name string) (*os.File, error) {
	file, err := tempfile.Create()
	if err == nil {
		b.written = append(b.written, tableFile{name, file})
	}
	return file, err
}

func (b *builder) close() {
	for _, t := range b.written {
		_ = t.file.Close()
	}
}

// build writes all tables but meta to temporary files. shown are the jobs that the dashboard shows.
func (b *builder) build(ctx context.Context, shown []Job) error {
	// The table meta has the warnings as JSON. If it cannot be written, nothing else needs to be.
	if _, err := losslessJSON(b.tables.Warnings); err != nil {
		return err
	}
	if err := b.smallTables(shown); err != nil {
		return err
	}
	var files []*os.File
	for _, table := range []string{rowsTableName, tasksTable, taskEventsTable, profileTable} {
		f, err := b.create(table)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	rows, tasks, taskEvents, profile := files[0], files[1], files[2], files[3]
	var g errgroup.Group
	progress := func(rows int) {
		if ctx.Err() == nil {
			b.progress(rows)
		}
	}
	g.Go(func() error {
		return guard.CatchPanic("rows for the server",
			func() (err error) {
				b.groupBytes, err = writeRows(&cancellable{ctx, rows}, b.tables, b.generation, progress)
				return err
			})
	})
	g.Go(func() error {
		return guard.CatchPanic("rows for analysis", func() error {
			// Rows that are not in memory are read in their own order; any other order would read each group many
			// times.
			byJob := b.session.Tasks.InMemory()
			w := newTaskWriter(b.owner, b.generation, byJob, &cancellable{ctx, tasks}, &cancellable{ctx, taskEvents},
				&cancellable{ctx, profile})
			return w.write(b.session.Tasks, progress)
		})
	})
	return g.Wait()
}

// cancellable is a writer that fails when its context ends.
type cancellable struct {
	ctx context.Context
	w   io.Writer
}

// Write passes p on until the context ends.
func (c *cancellable) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// smallTables writes the tables that are small enough to be made in memory at once, to temporary files. shown are the
// jobs that the dashboard shows.
func (b *builder) smallTables(shown []Job) error {
	rows := make([]text, len(b.tables.Strings))
	for i := range rows {
		rows[i].Text = b.tables.Strings[i]
	}
	definitions, err := encodeAll(b.tables.Definitions)
	if err != nil {
		return err
	}
	profilers, err := encodeAll(b.tables.Profilers)
	if err != nil {
		return err
	}
	return untilError(
		func() error { return writeTable(b, textsTable, rows) },
		func() error { return writeTable(b, definitionsTable, []document{{definitions}, {profilers}}) },
		func() error {
			if b.tables.Checkpoint == nil {
				return nil
			}
			return writeTable(b, checkpointTable, []document{{b.tables.Checkpoint}})
		},
		func() error { return writeEntities(b, actorsTable, b.tables.Actors, newActorRow) },
		func() error { return writeEntities(b, nodesTable, b.tables.Nodes, newNodeRow) },
		func() error { return b.jobTables(shown) },
		func() error { return writeEntities(b, workersTable, b.tables.Workers, newWorkerRow) },
		func() error { return writeEntities(b, groupsTable, b.tables.PlacementGroups, newGroupRow) },
		func() error { return writeEntities(b, platformTable, b.tables.PlatformEvents, newPlatformRow) },
	)
}

// writeEntities writes entities as a table of the index; row makes the columns that people read.
func writeEntities[E, R any](b *builder, table string, all []E, row func(entity, *E) R) error {
	rows, err := entityRows(b.owner, all, row)
	if err != nil {
		return err
	}
	return writeTable(b, table, rows)
}

// writeTable writes rows as a table of the index, a Parquet file.
func writeTable[T any](b *builder, table string, rows []T) error {
	f, err := b.create(table)
	if err != nil {
		return err
	}
	out := parquet.NewGenericWriter[T](f, writerOptions(b.generation)...)
	if _, err := out.Write(rows); err != nil {
		return err
	}
	return out.Close()
}
