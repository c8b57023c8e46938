package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// row is a row of the table "rows": the task table as the server holds it, in the order Ray lists attempts. The columns that scans look
// at come first and the order within each kind is that of package session, so that what is read together lies together. Blobs are
// session's own.
type row struct {
	Job        int32 `parquet:"job,delta"`
	Definition int32 `parquet:"definition,delta"`
	ReprName   int32 `parquet:"repr_name,delta"`
	Flags      int32 `parquet:"flags,delta"`
	State      int32 `parquet:"state,delta"`

	ID [rayid.TaskSize]byte `parquet:"id"`

	Attempt    int32 `parquet:"attempt,delta"`
	Parent     int32 `parquet:"parent,delta"`
	Actor      int32 `parquet:"actor,delta"`
	Node       int32 `parquet:"node,delta"`
	Worker     int32 `parquet:"worker,delta"`
	PID        int32 `parquet:"pid,delta"`
	StdoutFile int32 `parquet:"stdout_file,delta"`
	StderrFile int32 `parquet:"stderr_file,delta"`
	Profiler   int32 `parquet:"profiler,delta"`

	PendingArgsAvail      int64 `parquet:"pending_args_avail_ns,delta"`
	PendingNodeAssignment int64 `parquet:"pending_node_assignment_ns,delta"`
	SubmittedToWorker     int64 `parquet:"submitted_to_worker_ns,delta"`
	Running               int64 `parquet:"running_ns,delta"`
	Finished              int64 `parquet:"finished_ns,delta"`
	StdoutStart           int64 `parquet:"stdout_start,delta"`
	StdoutEnd             int64 `parquet:"stdout_end,delta"`
	StderrStart           int64 `parquet:"stderr_start,delta"`
	StderrEnd             int64 `parquet:"stderr_end,delta"`

	Later   []byte `parquet:"later"`
	Failure []byte `parquet:"failure"`
	Profile []byte `parquet:"profile"`
}

// rowColumns are the names of all columns, in order.
func rowColumns() []string {
	return slices.Concat(session.ScanColumns, []string{"id"}, session.CellColumns, session.TimeColumns, session.BlobColumns)
}

// writeRows writes the table "rows", a row group for each of session's groups.
func writeRows(w io.Writer, t *session.Tables, generation string, done func(rows int)) error {
	out := parquet.NewGenericWriter[row](w, writerOptions(generation, session.GroupRows)...)
	var values []parquet.Value
	for g := range t.First {
		columns, err := t.Source.Columns(g, session.AllParts)
		if err != nil {
			return err
		}
		writers := out.ColumnWriters()
		put := func(n int, value func(i int) parquet.Value) error {
			values = values[:0]
			for i := range n {
				values = append(values, value(i))
			}
			_, err := writers[0].WriteRowValues(values)
			writers = writers[1:]
			return err
		}
		rows := len(columns.Scan[0])
		ints := func(all [][]int32) error {
			for _, c := range all {
				if err := put(rows, func(i int) parquet.Value { return parquet.Int32Value(c[i]) }); err != nil {
					return err
				}
			}
			return nil
		}
		err = ints(columns.Scan)
		if err == nil {
			err = put(rows, func(i int) parquet.Value {
				return parquet.FixedLenByteArrayValue(columns.IDs[i*rayid.TaskSize : (i+1)*rayid.TaskSize])
			})
		}
		if err == nil {
			err = ints(columns.Cells)
		}
		for _, c := range columns.Times {
			if err == nil {
				err = put(rows, func(i int) parquet.Value { return parquet.Int64Value(c[i]) })
			}
		}
		for _, c := range columns.Blobs {
			if err == nil {
				err = put(rows, func(i int) parquet.Value { return parquet.ByteArrayValue(c.At(i)) })
			}
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return err
		}
		done(rows)
	}
	return out.Close()
}

// rowsTable reads the table "rows". It implements session.RowSource.
type rowsTable struct {
	object *object
	file   *parquet.File
}

var errSchema = errors.New("not the columns of this version")

// openRows opens the table; only its footer is read.
func openRows(ctx context.Context, o *object, f *facts) (*rowsTable, error) {
	file, err := o.openBuffered(ctx, memoryBuffer) // row groups are read by part
	if err != nil {
		return nil, err
	}
	if err := f.belongs(file, o.key); err != nil {
		return nil, err
	}
	var found []string
	for _, path := range file.Schema().Columns() {
		found = append(found, path[0])
	}
	if !slices.Equal(found, rowColumns()) {
		return nil, fmt.Errorf("%s: %w", o.key, errSchema)
	}
	return &rowsTable{object: o, file: file}, nil
}

// Columns implements session.RowSource.
func (t *rowsTable) Columns(g int, part session.Part) (*session.TaskColumns, error) {
	groups := t.file.RowGroups()
	if g >= len(groups) {
		return nil, fmt.Errorf("%w: %s has no row group %d", session.ErrDamaged, t.object.key, g)
	}
	chunks := groups[g].ColumnChunks()
	switch part {
	case session.ScanPart:
		chunks = chunks[:len(session.ScanColumns)]
	case session.KinPart:
		chunks = chunks[:len(session.ScanColumns)+1+len(session.CellColumns)+1]
	}
	data, err := t.object.part(context.Background(), t.file, g, len(chunks))
	if err != nil {
		return nil, err
	}
	out, err := readColumns(chunks, data, int(groups[g].NumRows()), part)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", session.ErrDamaged, t.object.key, err)
	}
	return out, nil
}

// readColumns decodes the columns of a row group that belong to a part.
func readColumns(chunks []parquet.ColumnChunk, from io.ReaderAt, rows int, part session.Part) (out *session.TaskColumns, err error) {
	scan, ids := len(session.ScanColumns), len(session.ScanColumns)
	cells := ids + 1
	times := cells + len(session.CellColumns)
	blobs := times + len(session.TimeColumns)
	out = &session.TaskColumns{}
	if out.Scan, err = readInts(chunks[:scan], from, rows); err != nil || part == session.ScanPart {
		return out, err
	}
	if out.IDs, err = readFixed(chunks[ids], from, rows); err != nil {
		return nil, err
	}
	wanted := chunks[cells:times]
	if part == session.KinPart {
		wanted, blobs = wanted[:session.KinCells], times+1
	}
	if out.Cells, err = readInts(wanted, from, rows); err != nil {
		return nil, err
	}
	if out.Times, err = readLongs(chunks[times:blobs], from, rows); err != nil || part == session.KinPart {
		return out, err
	}
	out.Blobs, err = readBlobs(chunks[blobs:], from, rows)
	return out, err
}
