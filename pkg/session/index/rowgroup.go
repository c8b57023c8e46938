package index

import (
	"fmt"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// rowGroup is columns of a row group of the table "rows", with their bytes.
type rowGroup struct {
	chunks []tablefile.Chunk
	rows   int
	from   int64 // where data begins in the file
	data   []byte
}

// columns decodes the columns that belong to a part.
func (g *rowGroup) columns(part tasktable.Part) (out *tasktable.Columns, err error) {
	ids := len(tasktable.ScanColumns)
	cells := ids + 1
	times := cells + len(tasktable.CellColumns)
	blobs := times + len(tasktable.TimeColumns)
	out = &tasktable.Columns{}
	if out.Scan, err = g.int32s(0, ids); err != nil || part == tasktable.ScanPart {
		return out, err
	}
	if out.IDs, err = g.taskIDs(ids); err != nil {
		return nil, err
	}
	if out.Cells, err = g.int32s(cells, cells+part.Cells()); err != nil {
		return nil, err
	}
	if out.Times, err = g.int64s(times, times+part.Times()); err != nil {
		return nil, err
	}
	out.Blobs, err = g.byteStrings(blobs, blobs+part.Blobs())
	return out, err
}

func (g *rowGroup) bytes(c *tablefile.Chunk) []byte { return g.data[c.From-g.from : c.To-g.from] }

// int32s reads the columns [from, to).
func (g *rowGroup) int32s(from, to int) ([][]int32, error) {
	all := make([][]int32, to-from)
	for i := range all {
		c := &g.chunks[from+i]
		var err error
		if all[i], err = c.Int32s(g.bytes(c), make([]int32, 0, g.rows)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (g *rowGroup) int64s(from, to int) ([][]int64, error) {
	all := make([][]int64, to-from)
	for i := range all {
		c := &g.chunks[from+i]
		var err error
		if all[i], err = c.Int64s(g.bytes(c), make([]int64, 0, g.rows)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (g *rowGroup) taskIDs(column int) ([]byte, error) {
	c := &g.chunks[column]
	return c.Fixed(g.bytes(c), rayid.TaskSize, make([]byte, 0, g.rows*rayid.TaskSize))
}

// byteStrings decodes columns of byte strings: those of the group with indexes from to before to.
func (g *rowGroup) byteStrings(from, to int) ([]tasktable.Blobs, error) {
	all := make([]tasktable.Blobs, to-from)
	for i := range all {
		c, b := &g.chunks[from+i], &all[i]
		b.Ends = make([]uint32, 0, g.rows)
		err := c.Bytes(g.bytes(c), func(text []byte, ends []uint32) {
			base := uint32(len(b.Data))
			b.Data = append(b.Data, text...)
			for _, end := range ends {
				b.Ends = append(b.Ends, base+end)
			}
		})
		if err != nil {
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
