package index

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/session"
)

// object is a stored table.
type object struct {
	store blob.Reader
	key   string
	size  int64
}

const (
	// wholeBytes is up to how many bytes an object is read at once: footers of larger ones are within that many from the end, unless they
	// have thousands of row groups.
	wholeBytes = 1 << 20
	// memoryBuffer is what each column is buffered by that is read from memory: hardly anything.
	memoryBuffer = 4 << 10
)

// open reads the footer of an object whose columns are read one after the other. Parts that come with it are not read again.
func (o *object) open(ctx context.Context) (*parquet.File, error) {
	if o.size <= wholeBytes {
		return o.openBuffered(ctx, memoryBuffer)
	}
	return o.openBuffered(ctx, wholeBytes)
}

func (o *object) openBuffered(ctx context.Context, buffer int) (*parquet.File, error) {
	tail := min(o.size, wholeBytes)
	end, err := o.read(ctx, o.size-tail, tail)
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(&tailReader{ctx: ctx, object: o, tail: end}, o.size,
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(buffer))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.key, err)
	}
	return file, nil
}

func (o *object) read(ctx context.Context, offset, n int64) ([]byte, error) {
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

// tailReader reads an object whose last bytes are in memory.
type tailReader struct {
	ctx    context.Context
	object *object
	tail   []byte
}

func (r *tailReader) ReadAt(p []byte, offset int64) (int, error) {
	from := r.object.size - int64(len(r.tail))
	if offset >= from {
		return bytes.NewReader(r.tail).ReadAt(p, offset-from)
	}
	n := min(int64(len(p)), r.object.size-offset)
	data, err := r.object.read(r.ctx, offset, n)
	if err != nil {
		return 0, err
	}
	if copy(p, data) < len(p) {
		return int(n), io.EOF
	}
	return len(p), nil
}

// part reads the first columns of a row group, which lie one after the other, by one request.
func (o *object) part(ctx context.Context, file *parquet.File, group, columns int) (io.ReaderAt, error) {
	chunks := file.Metadata().RowGroups[group].Columns[:columns]
	from, to := o.size, int64(0)
	for i := range chunks {
		m := &chunks[i].MetaData
		start := m.DataPageOffset
		if d := m.DictionaryPageOffset; d > 0 {
			start = min(start, d)
		}
		from, to = min(from, start), max(to, start+m.TotalCompressedSize)
	}
	if from < 0 || to > o.size || from >= to {
		return nil, fmt.Errorf("%w: row group %d of %s lies outside of the file", session.ErrDamaged, group, o.key)
	}
	data, err := o.read(ctx, from, to-from)
	return &window{from: from, data: data}, err
}

// window is a part of a file in memory.
type window struct {
	from int64
	data []byte
}

func (w *window) ReadAt(p []byte, offset int64) (int, error) {
	if offset < w.from || offset > w.from+int64(len(w.data)) {
		return 0, io.EOF
	}
	return bytes.NewReader(w.data).ReadAt(p, offset-w.from)
}
