package tablefile

import (
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// page holds the encoded values of some rows of a chunk.
type page struct {
	rows     int
	encoding encoding
	data     []byte
}

type encoding int64

const (
	plain             encoding = 0
	deltaBinaryPacked encoding = 5
	deltaLengthBytes  encoding = 6
)

// The kinds of pages that hold values; a dictionary's is another.
const (
	dataPage   = 0
	dataPageV2 = 3
)

// pageHeader stands before each page.
type pageHeader struct {
	kind                int64
	plain, stored       int64 // bytes
	rows, nulls, levels int64
	encoding            encoding
	compressed          bool
	checksum            uint32
	checked             bool
}

// pages calls visit for the pages of a chunk, whose bytes are data. A page's data is valid during the call only.
func (c *Chunk) pages(data []byte, visit func(page) error) error {
	if int64(len(data)) != c.To-c.From || !c.column.required || c.values != int64(c.rows) || c.codec != uncompressed && c.codec != zstandard {
		return malformed("column %s has an unknown form", c.column.Name)
	}
	rows, left := c.rows, c.Plain
	for rows > 0 {
		in := &thriftReader{b: data}
		h := readPageHeader(in)
		if in.bad || h.kind != dataPage && h.kind != dataPageV2 || h.rows <= 0 || h.rows > int64(rows) || h.nulls != 0 || h.levels != 0 ||
			h.stored < 0 || h.stored > int64(len(in.b)) || h.plain < 0 || h.plain > left {
			return malformed("a page of column %s cannot be read", c.column.Name)
		}
		stored := in.b[:h.stored]
		data = in.b[h.stored:]
		if h.checked && crc32.ChecksumIEEE(stored) != h.checksum {
			return malformed("the checksum of a page of column %s is wrong", c.column.Name)
		}
		values := stored
		if c.codec == zstandard && h.compressed {
			var err error
			if values, err = decompress(stored, int(h.plain)); err != nil {
				return malformed("a page of column %s: %w", c.column.Name, err)
			}
		}
		if int64(len(values)) != h.plain {
			return malformed("a page of column %s has %d bytes, want %d", c.column.Name, len(values), h.plain)
		}
		if err := visit(page{rows: int(h.rows), encoding: h.encoding, data: values}); err != nil {
			return malformed("column %s: %w", c.column.Name, err)
		}
		rows -= int(h.rows)
		left -= h.plain
	}
	return nil
}

func readPageHeader(c *thriftReader) pageHeader {
	h := pageHeader{kind: -1, rows: -1, compressed: true}
	c.structure(structType, func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.kind = c.integer(kind)
		case 2:
			h.plain = c.integer(kind)
		case 3:
			h.stored = c.integer(kind)
		case 4:
			h.checksum, h.checked = uint32(c.integer(kind)), true
		case 5:
			h.dataPage(c, kind)
		case 8:
			h.dataPageV2(c, kind)
		default:
			return false
		}
		return true
	})
	return h
}

func (h *pageHeader) dataPage(c *thriftReader, kind byte) {
	c.structure(kind, func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.rows = c.integer(kind)
		case 2:
			h.encoding = encoding(c.integer(kind))
		default:
			return false
		}
		return true
	})
}

func (h *pageHeader) dataPageV2(c *thriftReader, kind byte) {
	c.structure(kind, func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.rows = c.integer(kind)
		case 2:
			h.nulls = c.integer(kind)
		case 4:
			h.encoding = encoding(c.integer(kind))
		case 5, 6:
			h.levels |= c.integer(kind)
		case 7:
			h.compressed = c.boolean(kind)
		default:
			return false
		}
		return true
	})
}

// decoders are shared, because each holds tables of some hundred kilobytes. They never write beyond the capacity they are given.
var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // these options are valid
	}
	return d
}}

func decompress(data []byte, size int) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	return d.DecodeAll(data, make([]byte, 0, size))
}
