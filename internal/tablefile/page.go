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

// The types of pages that hold values; a dictionary's is another.
const (
	dataPage   = 0
	dataPageV2 = 3
)

// pageHeader stands before each page. Its fields are those of PageHeader in parquet.thrift.
type pageHeader struct {
	pageType                         int64
	uncompressedSize, compressedSize int64 // bytes
	rows, nulls, levels              int64 // levels: bytes
	encoding                         encoding
	compressed                       bool
	crc                              uint32
	hasCRC                           bool
}

// visitPages calls visit for each page of a chunk, decompressed. data is all bytes of the chunk, and is not trusted. A
// page's data is valid during the call only.
func (c *Chunk) visitPages(data []byte, visit func(page) error) error {
	// Our tables have one value in each row, and no other codec.
	hasKnownCodec := c.codec == uncompressed || c.codec == zstandard
	if int64(len(data)) != c.To-c.From || !c.column.required || c.values != int64(c.rows) || !hasKnownCodec {
		return malformed("column %s has an unknown form", c.column.Name)
	}
	rows, left := c.rows, c.Plain
	for rows > 0 {
		in := &thriftReader{b: data}
		h := readPageHeader(in)
		isKnown := (h.pageType == dataPage || h.pageType == dataPageV2) && h.nulls == 0 && h.levels == 0
		hasRows := h.rows > 0 && h.rows <= int64(rows)
		fits := h.compressedSize >= 0 && h.compressedSize <= int64(len(in.b)) &&
			h.uncompressedSize >= 0 && h.uncompressedSize <= left
		if in.bad || !isKnown || !hasRows || !fits {
			return malformed("a page of column %s cannot be read", c.column.Name)
		}
		stored := in.b[:h.compressedSize]
		data = in.b[h.compressedSize:]
		if h.hasCRC && crc32.ChecksumIEEE(stored) != h.crc {
			return malformed("the checksum of a page of column %s is wrong", c.column.Name)
		}
		values := stored
		if c.codec == zstandard && h.compressed {
			var err error
			if values, err = decompress(stored, int(h.uncompressedSize)); err != nil {
				return malformed("a page of column %s: %w", c.column.Name, err)
			}
		}
		if int64(len(values)) != h.uncompressedSize {
			return malformed("a page of column %s has %d bytes, want %d", c.column.Name, len(values),
				h.uncompressedSize)
		}
		if err := visit(page{rows: int(h.rows), encoding: h.encoding, data: values}); err != nil {
			return malformed("column %s: %w", c.column.Name, err)
		}
		rows -= int(h.rows)
		left -= h.uncompressedSize
	}
	return nil
}

// readPageHeader reads the page header that r begins with. A type or a number of rows that is missing stays -1, which
// visitPages refuses. Only pages of the second version say whether they are compressed; the others always are.
func readPageHeader(r *thriftReader) pageHeader {
	h := pageHeader{pageType: -1, rows: -1, compressed: true}
	r.readStruct(structType, func(id int16, fieldType byte) {
		switch id {
		case 1: // type
			h.pageType = r.integer(fieldType)
		case 2: // uncompressed_page_size
			h.uncompressedSize = r.integer(fieldType)
		case 3: // compressed_page_size
			h.compressedSize = r.integer(fieldType)
		case 4: // crc
			h.crc, h.hasCRC = uint32(r.integer(fieldType)), true
		case 5: // data_page_header
			h.dataPage(r, fieldType)
		case 8: // data_page_header_v2
			h.dataPageV2(r, fieldType)
		}
	})
	return h
}

// dataPage reads a DataPageHeader of parquet.thrift.
func (h *pageHeader) dataPage(r *thriftReader, fieldType byte) {
	r.readStruct(fieldType, func(id int16, fieldType byte) {
		switch id {
		case 1: // num_values
			h.rows = r.integer(fieldType)
		case 2: // encoding
			h.encoding = encoding(r.integer(fieldType))
		}
	})
}

// dataPageV2 reads a DataPageHeaderV2 of parquet.thrift. h.levels is not zero if the page has levels of either kind.
func (h *pageHeader) dataPageV2(r *thriftReader, fieldType byte) {
	r.readStruct(fieldType, func(id int16, fieldType byte) {
		switch id {
		case 1: // num_values
			h.rows = r.integer(fieldType)
		case 2: // num_nulls
			h.nulls = r.integer(fieldType)
		case 4: // encoding
			h.encoding = encoding(r.integer(fieldType))
		case 5, 6: // definition_levels_byte_length, repetition_levels_byte_length
			h.levels |= r.integer(fieldType)
		case 7: // is_compressed
			h.compressed = r.boolean(fieldType)
		}
	})
}

// decoders are shared, because each holds tables of some hundred kilobytes. They never write beyond the capacity they
// are given.
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
