package tasktable

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// File holds rows of a task table that memory has no room for. It is a temporary file whose name is already removed, so
// the disk space is freed when nothing reads it any more. It implements RowSource once it is complete.
type File struct {
	file   *os.File
	size   int64
	blocks []rowBlock
	groups []int        // the number of each group's first block
	first  []rayid.Task // the task of each group's first row
	rows   int
	// logStartsMissing is Table.LogStartsMissing of the rows.
	logStartsMissing bool

	pending       *Columns // rows that are not written yet, fewer than a block has
	plain, packed []byte   // buffers of flush
}

// blockRows is how many rows are compressed at a time, and blockBytes how many bytes of errors and profile events,
// unless a row has more. A run is written when memory is full, so its buffers should be small, as should the blocks
// of all runs that are merged. With four times as many rows a block, a file has only 6 % fewer bytes.
const (
	blockRows  = 256
	blockBytes = 64 << 10
)

// rowBlock says where in the file the columns of some rows are. All rows are of one group.
type rowBlock struct {
	rows       int
	scan, rest section
}

// section is a compressed part of the file.
type section struct {
	at, stored int64
	size       int // uncompressed
}

func newFile() (*File, error) {
	file, err := os.CreateTemp("", "historyserver-rows-")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file for rows: %w; set TMPDIR to a writable folder", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &File{file: file, pending: newColumns()}, nil
}

// add appends a row. Strings and definitions stay in memory.
func (f *File) add(r Row) error {
	f.logStartsMissing = f.logStartsMissing || r.logStartMissing()
	f.pending.add(r)
	n := f.pending.rows()
	if n < blockRows && (f.rows+n)%GroupRows != 0 && f.pending.blobBytes() < blockBytes {
		return nil
	}
	return f.flush()
}

// complete writes the remaining rows. Nothing can be added afterwards.
func (f *File) complete() error {
	if f.pending.rows() > 0 {
		if err := f.flush(); err != nil {
			return err
		}
	}
	f.pending, f.plain, f.packed = nil, nil, nil
	return nil
}

func (f *File) flush() error {
	c := f.pending
	b := rowBlock{rows: c.rows()}
	var err error
	f.plain = appendInts(f.plain[:0], c.Scan)
	if b.scan, err = f.write(f.plain); err != nil {
		return err
	}
	rest := appendInts(append(f.plain[:0], c.IDs...), c.Cells)
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
	f.plain = rest
	if b.rest, err = f.write(rest); err != nil {
		return err
	}
	if f.rows%GroupRows == 0 {
		f.groups = append(f.groups, len(f.blocks))
		f.first = append(f.first, rayid.Task(c.IDs[:rayid.TaskSize]))
	}
	f.blocks = append(f.blocks, b)
	f.rows += b.rows
	c.clear()
	return nil
}

func (f *File) write(data []byte) (section, error) {
	encoder, err := rowEncoder()
	if err != nil {
		return section{}, err
	}
	f.packed = encoder.EncodeAll(data, f.packed[:0])
	s := section{at: f.size, stored: int64(len(f.packed)), size: len(data)}
	if _, err := f.file.WriteAt(f.packed, s.at); err != nil {
		return s, fmt.Errorf("write rows to the temporary file: %w; set TMPDIR to a folder with more space", err)
	}
	f.size += s.stored
	return s, nil
}

// The encoder and the decoder are shared by all files, because each holds some megabytes.
var (
	rowEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10),
			zstd.WithEncoderConcurrency(2))
	})
	rowDecoder = sync.OnceValues(func() (*zstd.Decoder,
		error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	})
)

func appendInts(b []byte, columns [][]int32) []byte {
	for _, column := range columns {
		for _, v := range column {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return b
}

// readBuffer is memory for what is read from a File, to be used again.
type readBuffer struct{ stored, plain []byte }

// read reads a section. It is valid until the buffer is used again.
func (f *File) read(s section, into *readBuffer) ([]byte, error) {
	into.stored = slices.Grow(into.stored[:0], int(s.stored))[:s.stored]
	if _, err := f.file.ReadAt(into.stored, s.at); err != nil {
		return nil, fmt.Errorf("read rows from the temporary file: %w", err)
	}
	decoder, err := rowDecoder()
	if err != nil {
		return nil, err
	}
	into.plain, err = decoder.DecodeAll(into.stored, slices.Grow(into.plain[:0], s.size))
	if err != nil {
		return nil, fmt.Errorf("read rows from the temporary file: %w", err)
	}
	return into.plain, nil
}

// Columns implements RowSource.
func (f *File) Columns(n int, part Part) (*Columns, error) {
	to := len(f.blocks)
	if n+1 < len(f.groups) {
		to = f.groups[n+1]
	}
	blocks, out := f.blocks[f.groups[n]:to], newColumns()
	if err := f.columns(out, blocks, part, new(readBuffer)); err != nil {
		return nil, err
	}
	return out, nil
}

// columns appends the columns of blocks.
func (f *File) columns(out *Columns, blocks []rowBlock, part Part, buffer *readBuffer) error {
	for _, b := range blocks {
		data, err := f.read(b.scan, buffer)
		if err != nil {
			return err
		}
		takeInts(data, out.Scan, b.rows)
	}
	if part == ScanPart {
		return nil
	}
	for _, b := range blocks {
		data, err := f.read(b.rest, buffer)
		if err != nil {
			return err
		}
		out.takeRest(data, b.rows)
	}
	return nil
}

// takeRest appends the columns that are not scan columns.
func (c *Columns) takeRest(data []byte, rows int) {
	ids := rows * rayid.TaskSize
	c.IDs, data = append(c.IDs, data[:ids]...), data[ids:]
	data = takeInts(data, c.Cells, rows)
	for i := range c.Times {
		for k := range rows {
			c.Times[i] = append(c.Times[i], int64(binary.LittleEndian.Uint64(data[8*k:])))
		}
		data = data[8*rows:]
	}
	for i := range c.Blobs {
		blobs := &c.Blobs[i]
		before, size := uint32(len(blobs.Data)), uint32(0)
		for k := range rows {
			size = binary.LittleEndian.Uint32(data[4*k:])
			blobs.Ends = append(blobs.Ends, before+size)
		}
		data = data[4*rows:]
		blobs.Data, data = append(blobs.Data, data[:size]...), data[size:]
	}
}

// takeInts appends values of rows rows to each column, and returns the rest of data.
func takeInts(data []byte, columns [][]int32, rows int) []byte {
	for i := range columns {
		for k := range rows {
			columns[i] = append(columns[i], int32(binary.LittleEndian.Uint32(data[4*k:])))
		}
		data = data[4*rows:]
	}
	return data
}
