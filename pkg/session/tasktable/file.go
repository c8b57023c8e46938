package tasktable

import (
	"fmt"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// File holds rows of a task table that memory has no room for. It is a temporary file whose name is already removed, so
// the disk space is freed when nothing reads it any more. It implements RowSource once it is complete.
type File struct {
	file   *os.File
	size   int64
	blocks []fileBlock
	groups []int        // the number of each group's first block
	first  []rayid.Task // the task of each group's first row
	rows   int
	// logStartsMissing is Table.LogStartsMissing of the rows.
	logStartsMissing bool

	pending       *columns // rows that are not written yet, fewer than a block has
	plain, packed []byte   // buffers of flush
}

// blockRows is how many rows are compressed at a time, and blockBytes how many bytes of errors and profile events,
// unless a row has more. A run is written when memory is full, so its buffers should be small, as should the blocks
// of all runs that are merged. With four times as many rows a block, a file has only 6 % fewer bytes.
const (
	blockRows  = 256
	blockBytes = 64 << 10
)

// fileBlock says where in the file a block is: its sections follow one another. All rows are of one group.
type fileBlock struct {
	at     int64
	rows   int
	stored [numSections]uint32 // bytes
}

// newFile makes a file without a name, so that its space is freed with its last reader.
func newFile() (*File, error) {
	file, err := tempfile.Create()
	if err != nil {
		return nil, err
	}
	return &File{file: file, pending: newColumns()}, nil
}

// add appends a row. Strings and definitions stay in memory.
func (f *File) add(r Row) error {
	f.logStartsMissing = f.logStartsMissing || r.logStartMissing()
	c := f.pending
	c.add(r)
	if c.rows < blockRows && (f.rows+c.rows)%GroupRows != 0 && c.blobBytes < blockBytes {
		return nil
	}
	return f.flush()
}

// complete writes the remaining rows. Nothing can be added afterwards.
func (f *File) complete() error {
	if f.pending.rows > 0 {
		if err := f.flush(); err != nil {
			return err
		}
	}
	f.pending, f.plain, f.packed = nil, nil, nil
	return nil
}

// flush writes the pending rows as one block at the file's end, and clears them. A block never spans two groups.
func (f *File) flush() (err error) {
	c := f.pending
	b := fileBlock{at: f.size, rows: c.rows}
	f.packed = f.packed[:0]
	for s := range sections {
		before := len(f.packed)
		if f.packed, f.plain, err = c.encode(s, f.packed, f.plain); err != nil {
			return err
		}
		b.stored[s] = uint32(len(f.packed) - before)
	}
	if _, err := f.file.WriteAt(f.packed, b.at); err != nil {
		return fmt.Errorf("%w: %w; set TMPDIR to a folder with more space", tempfile.ErrUnusable, err)
	}
	f.size += int64(len(f.packed))
	if f.rows%GroupRows == 0 {
		f.groups = append(f.groups, len(f.blocks))
		f.first = append(f.first, c.firstTask())
	}
	f.blocks = append(f.blocks, b)
	f.rows += c.rows
	c.clear()
	return nil
}

// readBlock reads block n, only the sections of part. The block is in the memory of buffer, or of a larger one; used is
// that one, for the next call.
func (f *File) readBlock(n int, part Part, buffer []byte) (b Block, used []byte, err error) {
	block := &f.blocks[n]
	var ends [numSections + 1]int64 // where the section before ends, counted from the block's start
	from, to := int64(-1), int64(0) // the bytes of the block that have all sections of part
	for s, stored := range block.stored {
		ends[s+1] = ends[s] + int64(stored)
		if part.Has(s) {
			if from < 0 {
				from = ends[s]
			}
			to = ends[s+1]
		}
	}
	buffer = slices.Grow(buffer[:0], int(to-from))[:to-from]
	if _, err := f.file.ReadAt(buffer, block.at+from); err != nil {
		return b, buffer, fmt.Errorf("read rows from the temporary file: %w", err)
	}
	for s := range b {
		if part.Has(s) {
			b[s] = buffer[ends[s]-from : ends[s+1]-from]
		}
	}
	return b, buffer, nil
}

// Blocks implements RowSource.
func (f *File) Blocks(g int, part Part) ([]Block, error) {
	from, to := f.groups[g], len(f.blocks)
	if g+1 < len(f.groups) {
		to = f.groups[g+1]
	}
	blocks := make([]Block, to-from)
	for i := range blocks {
		var err error
		if blocks[i], _, err = f.readBlock(from+i, part, nil); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}
