package index

import (
	"context"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// storedTable is a table in a store.
type storedTable struct {
	store blob.Reader
	key   string
	size  int64
}

// tailBytes is how much of a table's end is read first: footers fit in it, unless there are thousands of row groups.
const tailBytes = 1 << 20

// open reads the footer of a table, and all of a small table.
func (o *storedTable) open(ctx context.Context, memory *memoryBudget) (*table, error) {
	tail := min(o.size, tailBytes)
	if err := memory.take(tail); err != nil {
		return nil, err
	}
	end, err := o.read(ctx, o.size-tail, tail)
	if err != nil {
		return nil, err
	}
	n, err := tablefile.FooterSize(end, o.size)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.key, err)
	}
	footer := o.size - int64(tablefile.TailBytes) - n
	if footer < o.size-tail {
		if err := memory.take(n); err != nil {
			return nil, err
		}
		if end, err = o.read(ctx, footer, o.size-footer); err != nil {
			return nil, err
		}
	}
	t := &table{storedTable: o, from: o.size - int64(len(end)), data: end}
	if t.File, err = tablefile.Parse(t.part(footer, footer+n), o.size, memory.take); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.key, err)
	}
	return t, nil
}

// read reads n bytes of the table's object.
func (o *storedTable) read(ctx context.Context, offset, n int64) ([]byte, error) {
	r, err := o.store.Get(ctx, o.key, offset, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.key, err)
	}
	defer func() { _ = r.Close() }()
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.key, err)
	}
	return data, nil
}
