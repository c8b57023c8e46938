package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	g := rowGroup{chunks: t.Groups[n].Chunks, rows: t.Groups[n].Rows}
	switch part {
	case tasktable.ScanPart:
		g.chunks = g.chunks[:len(tasktable.ScanColumns)]
	case tasktable.PlacePart:
		g.chunks = g.chunks[:len(g.chunks)-len(tasktable.BlobColumns)+1]
	case tasktable.LineagePart, tasktable.RunPart:
		g.chunks = g.chunks[:len(tasktable.ScanColumns)+1+len(tasktable.CellColumns)+part.Times()]
	}
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
