package tablefile

import (
	"encoding/binary"
	"errors"
	"math"
)

var (
	errType     = errors.New("values of another type")
	errEncoding = errors.New("unknown encoding")
	errLength   = errors.New("too few or too many bytes")
)

// Int64s appends the values of a chunk of integers to out. data is all bytes of the chunk.
func (c *Chunk) Int64s(data []byte, out []int64) ([]int64, error) {
	err := c.pagesOf(int64Values, data, func(p page) (err error) {
		switch {
		case p.encoding == deltaBinaryPacked:
			out, _, err = appendDeltas(out, p.data, p.rows, 64)
			return err
		case p.encoding != plain:
			return errEncoding
		case len(p.data) != 8*p.rows:
			return errLength
		}
		for i := range p.rows {
			out = append(out, int64(binary.LittleEndian.Uint64(p.data[8*i:])))
		}
		return nil
	})
	return out, err
}

// Doubles appends the values of a chunk of float64 to out. data is all bytes of the chunk. The bits of a NaN are kept.
func (c *Chunk) Doubles(data []byte, out []float64) ([]float64, error) {
	err := c.pagesOf(doubles, data, func(p page) error {
		switch {
		case p.encoding != plain:
			return errEncoding
		case len(p.data) != 8*p.rows:
			return errLength
		}
		for i := range p.rows {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(p.data[8*i:])))
		}
		return nil
	})
	return out, err
}

// pagesOf calls visit with the pages of a chunk, whose bytes are data, if it has values of a kind.
func (c *Chunk) pagesOf(kind physicalType, data []byte, visit func(p page) error) error {
	if c.column.kind != kind {
		return malformed("column %s: %w", c.column.Name, errType)
	}
	return c.visitPages(data, visit)
}

// Bytes calls visit for each page of a chunk of byte strings. data is all bytes of the chunk. String i of the page is
// text[ends[i-1]:ends[i]], the first one text[:ends[0]]; they are valid during the call only.
func (c *Chunk) Bytes(data []byte, visit func(text []byte, ends []uint32)) error {
	var lengths []int32
	var ends []uint32
	return c.pagesOf(bytesType, data, func(p page) error {
		if p.encoding != deltaLengthBytes {
			return errEncoding
		}
		var text []byte
		var err error
		if lengths, text, err = appendDeltas(lengths[:0], p.data, p.rows, 32); err != nil {
			return err
		}
		ends = ends[:0]
		total := int64(0)
		for _, n := range lengths {
			total += int64(n)
			if n < 0 || total > int64(len(text)) || total > math.MaxUint32 {
				return errLength
			}
			ends = append(ends, uint32(total))
		}
		if total != int64(len(text)) {
			return errLength
		}
		visit(text, ends)
		return nil
	})
}
