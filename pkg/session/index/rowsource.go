package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

var errSchema = errors.New("not the columns of this version")

// rowsTable reads the table "rows". It implements tasktable.RowSource.
type rowsTable struct{ *table }

// openRows opens the table; only its footer is read.
func openRows(ctx context.Context, o *storedTable, m *metadata, memory *memoryBudget) (*rowsTable, error) {
	t, err := o.open(ctx, memory)
	if err != nil {
		return nil, err
	}
	if err := m.checkBelongs(t); err != nil {
		return nil, err
	}
	if len(t.Groups) != len(m.First) || t.Rows != m.Rows {
		return nil, fmt.Errorf("%s: %d rows in %d row groups, want %d in %d", o.key, t.Rows, len(t.Groups), m.Rows,
			len(m.First))
	}
	var found []string
	for _, c := range t.Columns {
		found = append(found, c.Name)
	}
	if !slices.Equal(found, rowColumns()) {
		return nil, fmt.Errorf("%s: %w", o.key, errSchema)
	}
	t.data = nil // row groups are read one by one
	return &rowsTable{t}, nil
}

// Columns implements tasktable.RowSource.
func (t *rowsTable) Columns(n int, part tasktable.Part) (*tasktable.Columns, error) {
	if n >= len(t.Groups) {
		return nil, fmt.Errorf("%w: %s has no row group %d", tasktable.ErrDamaged, t.key, n)
	}
	g := rowGroup{chunks: t.Groups[n].Chunks[:chunksOf(part)], rows: t.Groups[n].Rows}
	from, to, err := g.extent()
	if err != nil {
		return nil, fmt.Errorf("%w: row group %d of %s: %w", tasktable.ErrDamaged, n, t.key, err)
	}
	if g.from = from; to > from {
		if g.data, err = t.read(context.Background(), from, to-from); err != nil {
			return nil, err
		}
	}
	out, err := g.columns(part)
	if err != nil {
		return nil, fmt.Errorf("%w: row group %d of %s: %w", tasktable.ErrDamaged, n, t.key, err)
	}
	return out, nil
}

// maxGroupSize is how many bytes the columns of a row group have at most, uncompressed.
func (t *rowsTable) maxGroupSize() (most int64) {
	for i := range t.Groups {
		var plain int64
		for n := range t.Groups[i].Chunks {
			plain += min(t.Groups[i].Chunks[n].Plain, 4*maxGroupBytes)
		}
		most = max(most, plain)
	}
	return most
}

// Where the columns of each kind begin. What is read together lies together.
var (
	idColumn  = len(tasktable.ScanColumns)
	firstCell = idColumn + 1
	firstTime = firstCell + len(tasktable.CellColumns)
	firstBlob = firstTime + len(tasktable.TimeColumns)
)

// chunksOf is how many columns have to be read for a part: some that lie between its own are read with them.
func chunksOf(part tasktable.Part) int {
	switch {
	case part == tasktable.ScanPart:
		return idColumn
	case part.Blobs() > 0:
		return firstBlob + part.Blobs()
	}
	return firstTime + part.Times()
}

// rowGroup is columns of a row group of the table "rows", with their bytes.
type rowGroup struct {
	chunks []tablefile.Chunk
	rows   int
	from   int64 // where data begins in the file
	data   []byte
}

// columns decodes the columns that belong to a part.
func (g *rowGroup) columns(part tasktable.Part) (*tasktable.Columns, error) {
	out := &tasktable.Columns{}
	var err error
	if out.Scan, err = numbers(g, 0, idColumn, (*tablefile.Chunk).Int32s); err != nil || part == tasktable.ScanPart {
		return out, err
	}
	ids := &g.chunks[idColumn]
	if out.IDs, err = ids.Fixed(g.bytes(ids), rayid.TaskSize, make([]byte, 0, g.rows*rayid.TaskSize)); err != nil {
		return nil, err
	}
	if out.Cells, err = numbers(g, firstCell, part.Cells(), (*tablefile.Chunk).Int32s); err != nil {
		return nil, err
	}
	if out.Times, err = numbers(g, firstTime, part.Times(), (*tablefile.Chunk).Int64s); err != nil {
		return nil, err
	}
	out.Blobs = make([]tasktable.Blobs, part.Blobs())
	for i := range out.Blobs {
		c, b := &g.chunks[firstBlob+i], &out.Blobs[i]
		b.Ends = make([]uint32, 0, g.rows)
		if err := c.Bytes(g.bytes(c), func(text []byte, ends []uint32) {
			base := uint32(len(b.Data))
			b.Data = append(b.Data, text...)
			for _, end := range ends {
				b.Ends = append(b.Ends, base+end)
			}
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (g *rowGroup) bytes(c *tablefile.Chunk) []byte { return g.data[c.From-g.from : c.To-g.from] }

// numbers decodes n columns, the first of which is column from.
func numbers[T any](g *rowGroup, from, n int, decode func(c *tablefile.Chunk, data []byte, out []T) ([]T, error)) (
	all [][]T, err error) {
	all = make([][]T, n)
	for i := range all {
		c := &g.chunks[from+i]
		if all[i], err = decode(c, g.bytes(c), make([]T, 0, g.rows)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// maxGroupBytes bounds the byte strings of a row group, uncompressed: mostly error messages. Larger ones are not
// written.
const maxGroupBytes = 256 << 20

// extent returns the bytes [from, to) of the file that hold the columns, one after the other. It refuses a row group
// that is too large.
func (g *rowGroup) extent() (from, to int64, err error) {
	if g.rows > tasktable.GroupRows {
		return 0, 0, fmt.Errorf("%w: a row group of %d rows", tablefile.ErrMalformed, g.rows)
	}
	from, to = g.chunks[0].From, g.chunks[0].To
	var plain int64
	for i := range g.chunks {
		c := &g.chunks[i]
		from, to = min(from, c.From), max(to, c.To)
		if plain += min(c.Plain, 4*maxGroupBytes); plain > 2*maxGroupBytes || to-from > 2*maxGroupBytes {
			return 0, 0, fmt.Errorf("%w: a row group of more than %d bytes", tablefile.ErrMalformed, 2*maxGroupBytes)
		}
	}
	return from, to, nil
}
