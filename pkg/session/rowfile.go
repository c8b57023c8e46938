package session

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// rowFile holds the rows of a task table that is too large for memory, GroupRows at a time, in a temporary file without a name: it is gone
// with the last session that reads it. It implements RowSource once it is complete.
type rowFile struct {
	file   *os.File
	size   int64
	groups []rowGroup
	first  []rayid.Task // the task of each group's first row
	rows   int

	pending *TaskColumns // fewer rows than a group has
	encoder *zstd.Encoder
}

// rowGroup says where the columns of a group lie.
type rowGroup struct {
	rows       int
	scan, rest section
}

// section is a compressed part of the file.
type section struct {
	at, stored int64
	size       int // uncompressed
}

func newRowFile() (*rowFile, error) {
	file, err := os.CreateTemp("", "historyserver-rows-")
	if err != nil {
		return nil, fmt.Errorf("make a file for rows that memory has no room for: %w (TMPDIR says where)", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return &rowFile{file: file, pending: newTaskColumns(), encoder: encoder}, nil
}

// add appends the rows of a table. Texts and definitions stay where they are.
func (f *rowFile) add(t *Tasks) error {
	for from := 0; from < t.n; {
		to := min(t.n, from+GroupRows-f.pending.rows())
		t.appendColumns(f.pending, from, to)
		from = to
		if f.pending.rows() == GroupRows {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete writes what is left. Nothing can be added afterwards.
func (f *rowFile) complete() error {
	if f.pending.rows() > 0 {
		if err := f.flush(); err != nil {
			return err
		}
	}
	f.pending, f.encoder = nil, nil
	return nil
}

func (f *rowFile) flush() error {
	c := f.pending
	f.pending = newTaskColumns()
	g := rowGroup{rows: c.rows()}
	var err error
	if g.scan, err = f.write(appendInts(nil, c.Scan)); err != nil {
		return err
	}
	rest := appendInts(append([]byte(nil), c.IDs...), c.Cells)
	for _, column := range c.Times {
		for _, v := range column {
			rest = binary.LittleEndian.AppendUint64(rest, uint64(v))
		}
	}
	for i := range c.Blobs {
		for _, end := range c.Blobs[i].Ends {
			rest = binary.LittleEndian.AppendUint32(rest, end)
		}
		rest = append(rest, c.Blobs[i].Data...)
	}
	if g.rest, err = f.write(rest); err != nil {
		return err
	}
	f.first = append(f.first, rayid.Task(c.IDs[:rayid.TaskSize]))
	f.groups = append(f.groups, g)
	f.rows += g.rows
	return nil
}

func (f *rowFile) write(data []byte) (section, error) {
	stored := f.encoder.EncodeAll(data, nil)
	s := section{at: f.size, stored: int64(len(stored)), size: len(data)}
	if _, err := f.file.WriteAt(stored, s.at); err != nil {
		return s, fmt.Errorf("write rows that memory has no room for: %w (TMPDIR says where)", err)
	}
	f.size += s.stored
	return s, nil
}

func appendInts(b []byte, columns [][]int32) []byte {
	for _, column := range columns {
		for _, v := range column {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return b
}

var rowDecoder = sync.OnceValues(func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)) })

func (f *rowFile) read(s section) ([]byte, error) {
	stored := make([]byte, s.stored)
	if _, err := f.file.ReadAt(stored, s.at); err != nil {
		return nil, fmt.Errorf("read rows that memory has no room for: %w", err)
	}
	decoder, err := rowDecoder()
	if err != nil {
		return nil, err
	}
	data, err := decoder.DecodeAll(stored, make([]byte, 0, s.size))
	if err != nil {
		return nil, fmt.Errorf("read rows that memory has no room for: %w", err)
	}
	return data, nil
}

// Columns implements RowSource.
func (f *rowFile) Columns(n int, all bool) (*TaskColumns, error) {
	g := f.groups[n]
	data, err := f.read(g.scan)
	if err != nil {
		return nil, err
	}
	out := newTaskColumns()
	takeInts(data, out.Scan, g.rows)
	if !all {
		return &TaskColumns{Scan: out.Scan}, nil
	}
	if data, err = f.read(g.rest); err != nil {
		return nil, err
	}
	ids := g.rows * rayid.TaskSize
	out.IDs, data = data[:ids:ids], data[ids:]
	data = takeInts(data, out.Cells, g.rows)
	for i := range out.Times {
		out.Times[i] = make([]int64, g.rows)
		for k := range out.Times[i] {
			out.Times[i][k] = int64(binary.LittleEndian.Uint64(data[8*k:]))
		}
		data = data[8*g.rows:]
	}
	for i := range out.Blobs {
		ends := make([]uint32, g.rows)
		for k := range ends {
			ends[k] = binary.LittleEndian.Uint32(data[4*k:])
		}
		data = data[4*g.rows:]
		size := ends[g.rows-1]
		out.Blobs[i] = Blobs{Data: data[:size:size], Ends: ends}
		data = data[size:]
	}
	return out, nil
}

// takeInts reads columns of so many rows, and gives what follows them.
func takeInts(data []byte, columns [][]int32, rows int) []byte {
	for i := range columns {
		columns[i] = make([]int32, rows)
		for k := range columns[i] {
			columns[i][k] = int32(binary.LittleEndian.Uint32(data[4*k:]))
		}
		data = data[4*rows:]
	}
	return data
}
