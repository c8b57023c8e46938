package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// rowBlock is a row of the table "rows": a tasktable.Block of task attempts, in the order in which Ray lists them. A
// row group holds one of tasktable's groups, so sections that are read together lie together.
type rowBlock struct {
	IDs    []byte `parquet:"ids"`
	Origin []byte `parquet:"origin"`
	Scan   []byte `parquet:"scan"`
	Ran    []byte `parquet:"ran"`
	Place  []byte `parquet:"place"`
	Rest   []byte `parquet:"rest"`
}

// rowColumns are the names of all columns, in order.
var rowColumns = []string{"ids", "origin", "scan", "ran", "place", "rest"}

// maxGroupBytes bounds a group of rows, uncompressed: mostly error messages. Larger ones are not written.
const maxGroupBytes = 256 << 20

// writeRows writes the table "rows": a row group for each group of the session's rows. maxPlain is how many bytes the
// largest group has uncompressed. progress is called with the rows of each group that is written.
func writeRows(w io.Writer, t *session.Tables, generation string, progress func(rows int)) (maxPlain int64, err error) {
	// Statistics of a column are its least and greatest value: here whole blocks.
	options := append(writerOptions(generation), parquet.MaxRowsPerRowGroup(tasktable.GroupRows),
		parquet.DataPageStatistics(false))
	for _, column := range rowColumns {
		options = append(options, parquet.SkipPageBounds(column))
	}
	out := parquet.NewGenericWriter[rowBlock](w, options...)
	for g := range t.First {
		blocks, err := t.Source.Blocks(g, tasktable.AllParts)
		if err != nil {
			return 0, err
		}
		plain, err := plainBytes(blocks)
		if err != nil {
			return 0, err
		}
		if plain > maxGroupBytes {
			return 0, fmt.Errorf("%d tasks with their errors and profile events have %d bytes, more than the %d of an "+
				"index", tasktable.GroupRows, plain, maxGroupBytes)
		}
		maxPlain = max(maxPlain, plain)
		for _, b := range blocks {
			row := rowBlock{b[0], b[1], b[2], b[3], b[4], b[5]} // a field for each section, in tasktable's order
			if _, err := out.Write([]rowBlock{row}); err != nil {
				return 0, err
			}
		}
		if err := out.Flush(); err != nil {
			return 0, err
		}
		progress(min(tasktable.GroupRows, t.Rows-g*tasktable.GroupRows))
	}
	return maxPlain, out.Close()
}

// plainBytes adds up the uncompressed sizes of blocks.
func plainBytes(blocks []tasktable.Block) (n int64, err error) {
	for i := range blocks {
		plain, err := blocks[i].PlainBytes()
		if err != nil {
			return 0, err
		}
		n += plain
	}
	return n, nil
}

var errSchema = errors.New("not the columns of this version")

// rowsTable reads the table "rows". It implements tasktable.RowSource.
type rowsTable struct {
	*tablefile.Table
	groupBytes int64 // of any group, uncompressed; or as stored, if that is more
}

// openRows opens the table of rows, reads its footer, and checks that this has what m says and names no more bytes than
// memory allows. Row groups are read later, one by one.
func openRows(ctx context.Context, o tablefile.Source, m *metadata) (*rowsTable, error) {
	t, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.checkBelongs(t); err != nil {
		return nil, err
	}
	if len(t.Groups) != len(m.First) {
		return nil, fmt.Errorf("%s: %d row groups, want %d", o.Key, len(t.Groups), len(m.First))
	}
	if m.GroupBytes < 0 || m.GroupBytes > maxGroupBytes {
		return nil, fmt.Errorf("%s: row groups of at most %d bytes, at most %d can be", o.Key, m.GroupBytes,
			maxGroupBytes)
	}
	var found []string
	for _, c := range t.Columns {
		found = append(found, c.Name)
	}
	if !slices.Equal(found, rowColumns) {
		return nil, fmt.Errorf("%s: %w", o.Key, errSchema)
	}
	t.KeepFooter() // row groups are read one by one
	rows := &rowsTable{Table: t, groupBytes: m.GroupBytes}
	const maxBytes = 2 * maxGroupBytes // Parquet adds its own: lengths, the headers of pages
	for n := range t.Groups {
		var bytes int64 // as stored or uncompressed, whatever is more
		for _, c := range t.Groups[n].Chunks {
			// The footer may give any number: the sum must not overflow.
			bytes += max(min(c.Plain, maxBytes+1), c.To-c.From)
		}
		if blocks := t.Groups[n].Rows; bytes > maxBytes || blocks > tasktable.GroupRows {
			return nil, fmt.Errorf("%s: row group %d has %d blocks, at most %d can be; and %d bytes, at most %d can be",
				o.Key, n, blocks, tasktable.GroupRows, bytes, maxBytes)
		}
		rows.groupBytes = max(rows.groupBytes, bytes)
	}
	return rows, nil
}

// Blocks implements tasktable.RowSource: it reads row group n, only the sections of part, by one request. Sections that
// are not of the form or size that the footer says are tasktable.ErrDamaged.
func (t *rowsTable) Blocks(n int, part tasktable.Part) ([]tasktable.Block, error) {
	if n >= len(t.Groups) {
		return nil, fmt.Errorf("%w: %s has no row group %d", tasktable.ErrDamaged, t.Key, n)
	}
	g := &t.Groups[n]
	from, to := t.Size, int64(0)
	for s := range g.Chunks {
		if part.Has(s) {
			from, to = min(from, g.Chunks[s].From), max(to, g.Chunks[s].To)
		}
	}
	if to-from > t.groupBytes {
		return nil, fmt.Errorf("%w: row group %d of %s is not in one place", tasktable.ErrDamaged, n, t.Key)
	}
	// Others wait for the group, too, and an error makes the whole table unreadable: no request's end ends the read.
	data, err := t.Range(context.Background(), from, max(from, to))
	if err != nil {
		return nil, err
	}
	blocks := make([]tasktable.Block, g.Rows)
	if err := t.readParts(g, part, data, from, blocks); err != nil {
		return nil, fmt.Errorf("%w: row group %d of %s: %w", tasktable.ErrDamaged, n, t.Key, err)
	}
	return blocks, nil
}

// readParts reads the sections of part into the blocks of a row group. data are the table's bytes from the offset from.
func (t *rowsTable) readParts(g *tablefile.Group, part tasktable.Part, data []byte, from int64,
	blocks []tasktable.Block) error {
	for s := range g.Chunks {
		if c := &g.Chunks[s]; part.Has(s) {
			if err := readSections(c, data[c.From-from:c.To-from], s, blocks); err != nil {
				return err
			}
		}
	}
	plain, err := plainBytes(blocks)
	if err == nil && plain > t.groupBytes {
		err = fmt.Errorf("%d bytes uncompressed, want at most %d", plain, t.groupBytes)
	}
	return err
}

// readSections reads a section of all blocks of a row group, whose bytes in the table are data. They come a Parquet
// page at a time, with where each block's section ends in it.
func readSections(c *tablefile.Chunk, data []byte, section int, blocks []tasktable.Block) error {
	return c.Bytes(data, func(text []byte, ends []uint32) {
		text = slices.Clone(text)
		from := uint32(0)
		for i, end := range ends {
			blocks[i][section] = text[from:end]
			from = end
		}
		blocks = blocks[len(ends):]
	})
}
