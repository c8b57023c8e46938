package index

import (
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// row is a row of the table "rows": the task table as the server holds it, in the order in which Ray lists attempts.
// The columns that scans read come first, and those of each kind have the order of package session, so that what is
// read together lies together. The form of the byte strings is package session's.
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
	return slices.Concat(tasktable.ScanColumns, []string{"id"}, tasktable.CellColumns, tasktable.TimeColumns,
		tasktable.BlobColumns)
}

// writeRows writes the table "rows", a row group for each of session's groups.
func writeRows(w io.Writer, t *session.Tables, generation string, progress func(rows int)) error {
	out := parquet.NewGenericWriter[row](w, writerOptions(generation, tasktable.GroupRows)...)
	var values []parquet.Value // used again for each column
	for g := range t.First {
		columns, err := t.Source.Columns(g, tasktable.AllParts)
		if err != nil {
			return err
		}
		if err := checkSize(columns); err != nil {
			return err
		}
		group := groupWriter{columns: out.ColumnWriters(), rows: len(columns.Scan[0]), values: values}
		group.write(columns)
		if values = group.values; group.err != nil {
			return group.err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		progress(group.rows)
	}
	return out.Close()
}

// groupWriter writes the columns of a row group, one after the other.
type groupWriter struct {
	columns []*parquet.ColumnWriter // not written yet
	rows    int
	values  []parquet.Value
	err     error // the first one
}

// write writes a group of rows, column by column, in the order of the table's schema.
func (g *groupWriter) write(c *tasktable.Columns) {
	g.ints(c.Scan)
	g.column(func(i int) parquet.Value {
		return parquet.FixedLenByteArrayValue(c.IDs[i*rayid.TaskSize : (i+1)*rayid.TaskSize])
	})
	g.ints(c.Cells)
	for _, times := range c.Times {
		g.column(func(i int) parquet.Value { return parquet.Int64Value(times[i]) })
	}
	for _, blobs := range c.Blobs {
		g.column(func(i int) parquet.Value { return parquet.ByteArrayValue(blobs.At(i)) })
	}
}

func (g *groupWriter) ints(columns [][]int32) {
	for _, c := range columns {
		g.column(func(i int) parquet.Value { return parquet.Int32Value(c[i]) })
	}
}

func (g *groupWriter) column(value func(i int) parquet.Value) {
	if g.err != nil {
		return
	}
	g.values = g.values[:0]
	for i := range g.rows {
		g.values = append(g.values, value(i))
	}
	_, g.err = g.columns[0].WriteRowValues(g.values)
	g.columns = g.columns[1:]
}

// checkSize refuses rows that make a row group too large to be read again.
func checkSize(columns *tasktable.Columns) error {
	n := 0
	for i := range columns.Blobs {
		n += len(columns.Blobs[i].Data)
	}
	if n > maxGroupBytes {
		return fmt.Errorf("the errors and profile events of %d tasks have %d bytes, more than the %d of an index",
			tasktable.GroupRows, n, maxGroupBytes)
	}
	return nil
}
