package tablefile

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// File is the footer of a table: what its columns are and where they lie.
type File struct {
	Rows    int
	Columns []Column
	Groups  []Group

	metadata map[string]string
}

// Column is a column of every row group.
type Column struct {
	Name     string
	kind     physicalType
	required bool
}

// Group is a row group.
type Group struct {
	Rows   int
	Chunks []Chunk // in the order of File's Columns
}

// Chunk is a column of a row group.
type Chunk struct {
	// From and To are where the chunk lies in the file.
	From, To int64
	// Plain is how many bytes its pages have uncompressed.
	Plain int64

	column *Column
	rows   int
	values int64
	codec  codec
}

// physicalType is how Parquet stores the values of a column.
type physicalType int64

const (
	int64Values physicalType = 2
	doubles     physicalType = 5
	bytesType   physicalType = 6
)

type codec int64

const (
	uncompressed codec = 0
	zstandard    codec = 6
)

const (
	magic = "PAR1"
	// TailBytes is the length of what follows the footer: the footer's length and the magic.
	TailBytes = 4 + len(magic)
	// maxFooter bounds a footer, in bytes. That of a session of ten million tasks has 3 MB.
	maxFooter = 32 << 20
)

// FooterSize reads the size of the footer from the last bytes of a file of size bytes. The footer ends TailBytes before
// the file does.
func FooterSize(tail []byte, size int64) (int64, error) {
	if len(tail) < TailBytes || string(tail[len(tail)-len(magic):]) != magic {
		return 0, malformed("not a Parquet file: its end is another")
	}
	n := int64(binary.LittleEndian.Uint32(tail[len(tail)-TailBytes:]))
	if n > maxFooter || n > size-int64(TailBytes+len(magic)) {
		return 0, malformed("a footer of %d bytes in a file of %d", n, size)
	}
	return n, nil
}

// Parse decodes the footer of a Parquet file of size bytes, a FileMetaData of parquet.thrift. It calls take with the
// number of bytes that it is about to keep, and ends with take's error. The footer is not trusted: what does not fit
// together, or lies outside the file, is an error.
func Parse(footer []byte, size int64, take func(n int64) error) (*File, error) {
	f := &File{metadata: make(map[string]string)}
	c := &thriftReader{b: footer, take: take}
	var rows int64
	var hasRoot bool
	c.readStruct(structType, func(id int16, kind byte) {
		switch id {
		case 2: // schema: its first element is the root, of which the others are the columns
			c.readList(kind, func(kind byte) {
				if !hasRoot {
					hasRoot = true
					c.skip(kind, 0)
					return
				}
				f.readColumn(c, kind)
			})
		case 3: // num_rows
			rows = c.integer(kind)
		case 4: // row_groups
			c.readList(kind, func(kind byte) { f.readGroup(c, kind, size-int64(len(footer)+TailBytes)) })
		case 5: // key_value_metadata
			c.readList(kind, func(kind byte) { f.keyValue(c, kind) })
		}
	})
	switch {
	case c.refused != nil:
		return nil, c.refused
	case c.bad:
		return nil, malformed("the footer cannot be read")
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		if len(g.Chunks) != len(f.Columns) {
			return nil, malformed("row group %d has %d columns, want %d", i, len(g.Chunks), len(f.Columns))
		}
		for n := range g.Chunks {
			g.Chunks[n].column, g.Chunks[n].rows = &f.Columns[n], g.Rows
		}
		if f.Rows > math.MaxInt32-g.Rows {
			return nil, malformed("too many rows")
		}
		f.Rows += g.Rows
	}
	if int64(f.Rows) != rows {
		return nil, malformed("the row groups have %d rows, want %d", f.Rows, rows)
	}
	return f, nil
}

// Lookup returns the value of a key in the file's metadata.
func (f *File) Lookup(key string) (value string, ok bool) {
	value, ok = f.metadata[key]
	return value, ok
}

// ColumnIndex returns the index of a column in Columns, -1 if there is none of the name.
func (f *File) ColumnIndex(name string) int {
	return slices.IndexFunc(f.Columns, func(c Column) bool { return c.Name == name })
}

// readColumn reads one column of the schema, a SchemaElement of parquet.thrift of which c is at the beginning. Nested
// columns, and what is missing, make c bad, which Parse looks at in the end.
func (f *File) readColumn(c *thriftReader, kind byte) {
	column := Column{kind: -1}
	c.readStruct(kind, func(id int16, kind byte) {
		switch id {
		case 1: // type
			column.kind = physicalType(c.integer(kind))
		case 3: // repetition_type, of which 0 is REQUIRED
			column.required = c.integer(kind) == 0
		case 4: // name
			column.Name = string(c.binary(kind))
		}
	})
	if column.kind < 0 || column.Name == "" {
		c.fail() // groups of columns have no type
	}
	if !c.reserve(int64(unsafe.Sizeof(column)) + int64(len(column.Name))) {
		return
	}
	f.Columns = append(f.Columns, column)
}

// readGroup reads a row group, a RowGroup of parquet.thrift. Its columns must lie before the offset end. What is
// missing or wrong makes c bad.
func (f *File) readGroup(c *thriftReader, kind byte, end int64) {
	g := Group{}
	rows := int64(-1)
	c.readStruct(kind, func(id int16, kind byte) {
		switch id {
		case 1: // columns
			c.readList(kind, func(kind byte) { g.readChunk(c, kind, end) })
		case 3: // num_rows
			rows = c.integer(kind)
		}
	})
	if rows < 0 || rows > math.MaxInt32 || len(g.Chunks) == 0 {
		c.fail()
	}
	if !c.reserve(int64(unsafe.Sizeof(g))) {
		return
	}
	g.Rows = int(rows)
	f.Groups = append(f.Groups, g)
}

// readChunk reads where one column of a group is: a ColumnChunk of parquet.thrift, of which only the metadata counts.
// The column must lie before the offset end.
func (g *Group) readChunk(c *thriftReader, kind byte, end int64) {
	found := false
	c.readStruct(kind, func(id int16, kind byte) {
		if id == 3 && !found {
			found = true
			g.chunkMetadata(c, kind, end)
		}
	})
	if !found {
		c.fail()
	}
}

// chunkMetadata reads a ColumnMetaData of parquet.thrift. A field that is missing, and a column whose bytes do not lie
// before the offset end, make c bad.
func (g *Group) chunkMetadata(c *thriftReader, kind byte, end int64) {
	chunk := Chunk{From: -1, Plain: -1, values: -1, codec: -1}
	compressed := int64(-1)
	c.readStruct(kind, func(id int16, kind byte) {
		switch id {
		case 4: // codec
			chunk.codec = codec(c.integer(kind))
		case 5: // num_values
			chunk.values = c.integer(kind)
		case 6: // total_uncompressed_size
			chunk.Plain = c.integer(kind)
		case 7: // total_compressed_size
			compressed = c.integer(kind)
		case 9: // data_page_offset
			chunk.From = c.integer(kind)
		}
	})
	isMissing := chunk.codec < 0 || chunk.values < 0 || chunk.Plain < 0 || compressed < 0 || chunk.From < 0
	if isMissing || chunk.From > end || compressed > end-chunk.From {
		c.fail()
	}
	if !c.reserve(int64(unsafe.Sizeof(chunk))) {
		return
	}
	chunk.To = chunk.From + compressed
	g.Chunks = append(g.Chunks, chunk)
}

// keyValue reads one pair of the file's own metadata, a KeyValue of parquet.thrift. If the memory for it is refused, it
// is left out and c has the error.
func (f *File) keyValue(c *thriftReader, kind byte) {
	var key, value string
	c.readStruct(kind, func(id int16, kind byte) {
		switch id {
		case 1:
			key = string(c.binary(kind))
		case 2:
			value = string(c.binary(kind))
		}
	})
	const entryBytes = 64 // of the map
	if c.reserve(2*int64(len(key)+len(value)) + entryBytes) {
		f.metadata[key] = value
	}
}
