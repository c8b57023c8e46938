package tablefile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
)

// Source is where a table is stored.
type Source struct {
	Key  string
	Size int64
	// Read reads the bytes [offset, offset+length) of the table's object.
	Read func(ctx context.Context, offset, length int64) ([]byte, error)
	// Take is called with the number of bytes before they are allocated, and its error ends the reading.
	Take func(bytes int64) error
}

// Table is a stored table whose footer has been read, with as much before it as was read at once.
type Table struct {
	*File
	Source
	from int64 // where data begins in the file
	data []byte
}

// tailBytes is how much of a table's end is read first: footers fit in it, unless there are thousands of row groups.
const tailBytes = 1 << 20

// Open reads the footer of a stored table with what comes with it: a small table is read as a whole. Memory is taken
// before it is used, and nothing has to be closed.
func (s Source) Open(ctx context.Context) (*Table, error) {
	tail := min(s.Size, tailBytes)
	if err := s.Take(tail); err != nil {
		return nil, err
	}
	end, err := s.Range(ctx, s.Size-tail, s.Size)
	if err != nil {
		return nil, err
	}
	n, err := FooterSize(end, s.Size)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Key, err)
	}
	footer := s.Size - int64(TailBytes) - n
	if footer < s.Size-tail {
		if err := s.Take(n); err != nil {
			return nil, err
		}
		if end, err = s.Range(ctx, footer, s.Size); err != nil {
			return nil, err
		}
	}
	t := &Table{Source: s, from: s.Size - int64(len(end)), data: end}
	if t.File, err = Parse(t.bytesBetween(footer, footer+n), s.Size, s.Take); err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Key, err)
	}
	return t, nil
}

// Range reads the bytes [from, to) of the table's object.
func (s *Source) Range(ctx context.Context, from, to int64) ([]byte, error) {
	data, err := s.Read(ctx, from, to-from)
	if err == nil && int64(len(data)) != to-from {
		err = fmt.Errorf("read %s: %w", s.Key, io.ErrUnexpectedEOF)
	}
	return data, err
}

// ReadAll reads what has not been read yet.
func (t *Table) ReadAll(ctx context.Context) error {
	if t.from == 0 {
		return nil
	}
	err := t.Take(t.Size)
	if err == nil {
		t.data, err = t.Range(ctx, 0, t.Size)
		t.from = 0
	}
	return err
}

// KeepFooter drops all but the footer: row groups are read one by one. It returns how many bytes that frees.
func (t *Table) KeepFooter() (bytes int64) {
	bytes = int64(len(t.data))
	t.data = nil
	return bytes
}

// bytesBetween returns the bytes [from, to) of the file, which must have been read.
func (t *Table) bytesBetween(from, to int64) []byte { return t.data[from-t.from : to-t.from] }

// Texts returns the values of a column of byte strings.
func (t *Table) Texts(name string) ([][]byte, error) {
	const slice = 24 + 8 // bytes of a slice's header, and of its length and end while a page is read
	return columnOf(t, name, slice, func(c *Chunk, data []byte, all [][]byte) ([][]byte, error) {
		err := c.Bytes(data, func(text []byte, ends []uint32) {
			text = bytes.Clone(text)
			from := uint32(0)
			for _, end := range ends {
				all = append(all, text[from:end:end])
				from = end
			}
		})
		return all, err
	})
}

// Int64s reads a column of numbers.
func (t *Table) Int64s(name string) ([]int64, error) { return columnOf(t, name, 8, (*Chunk).Int64s) }

// columnOf reads a whole column, each chunk with read, after it has taken the memory for it: valueBytes for each value,
// and what read needs. All of the table must have been read.
func columnOf[V any](t *Table, name string, valueBytes int64,
	read func(c *Chunk, data []byte, out []V) ([]V, error)) ([]V, error) {
	column := t.ColumnIndex(name)
	if column < 0 {
		return nil, fmt.Errorf("%s: %w", t.Key, malformed("there is no column %s", name))
	}
	for g := range t.Groups {
		// Twice, because slices that have grown leave their old arrays to the garbage collector.
		if err := t.Take(2 * min(t.Groups[g].Chunks[column].Plain, math.MaxInt64/2)); err != nil {
			return nil, err
		}
	}
	if err := t.Take(int64(t.Rows) * valueBytes); err != nil {
		return nil, err
	}
	all := make([]V, 0, t.Rows) // one allocation: what grows takes more than was taken
	for g := range t.Groups {
		c := &t.Groups[g].Chunks[column]
		var err error
		if all, err = read(c, t.bytesBetween(c.From, c.To), all); err != nil {
			return nil, fmt.Errorf("read %s: %w", t.Key, err)
		}
	}
	return all, nil
}
