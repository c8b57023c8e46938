package tablefile

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"
)

var (
	errType     = errors.New("values of another type")
	errEncoding = errors.New("unknown encoding")
	errLength   = errors.New("too few or too many bytes")
)

// Int32s appends the values of a chunk, whose bytes are data.
func (c *Chunk) Int32s(data []byte, out []int32) ([]int32, error) {
	return integers(c, int32Values, data, out)
}

// Int64s is Int32s for int64.
func (c *Chunk) Int64s(data []byte, out []int64) ([]int64, error) {
	return integers(c, int64Values, data, out)
}

// integers appends the values of a column of 4 or 8 bytes to out.
func integers[T int32 | int64](c *Chunk, kind physicalType, data []byte, out []T) ([]T, error) {
	if c.column.kind != kind {
		return nil, malformed("column %s: %w", c.column.Name, errType)
	}
	size := int(unsafe.Sizeof(T(0)))
	err := c.pages(data, func(p page) (err error) {
		switch p.encoding {
		case plain:
			if len(p.data) != size*p.rows {
				return errLength
			}
			for i := range p.rows {
				if size == 4 {
					out = append(out, T(int32(binary.LittleEndian.Uint32(p.data[4*i:]))))
				} else {
					out = append(out, T(binary.LittleEndian.Uint64(p.data[8*i:])))
				}
			}
		case deltaBinaryPacked:
			out, _, err = appendDeltas(out, p.data, p.rows, 8*size)
		default:
			return errEncoding
		}
		return err
	})
	return out, err
}

// Doubles is Int32s for float64. The bits of a NaN are kept.
func (c *Chunk) Doubles(data []byte, out []float64) ([]float64, error) {
	err := c.plainPages(data, doubles, 64, func(p page) {
		for i := range p.rows {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(p.data[8*i:])))
		}
	})
	return out, err
}

// Booleans is Int32s for booleans.
func (c *Chunk) Booleans(data []byte, out []bool) ([]bool, error) {
	err := c.plainPages(data, booleanType, 1, func(p page) {
		for i := range p.rows {
			out = append(out, p.data[i/8]>>(i%8)&1 == 1)
		}
	})
	return out, err
}

// plainPages calls visit with the pages of a chunk, whose bytes are data: plain values of a kind, of so many bits each.
func (c *Chunk) plainPages(data []byte, kind physicalType, bits int, visit func(p page)) error {
	if c.column.kind != kind {
		return malformed("column %s: %w", c.column.Name, errType)
	}
	return c.pages(data, func(p page) error {
		switch {
		case p.encoding != plain:
			return errEncoding
		case len(p.data) != (bits*p.rows+7)/8:
			return errLength
		}
		visit(p)
		return nil
	})
}

// Bytes calls visit with the byte strings of a chunk, whose bytes are data, page by page. The strings are
// text[ends[i-1]:ends[i]], valid during the call only.
func (c *Chunk) Bytes(data []byte, visit func(text []byte, ends []uint32)) error {
	if c.column.kind != bytesType {
		return malformed("column %s: %w", c.column.Name, errType)
	}
	var lengths []int32
	var ends []uint32
	return c.pages(data, func(p page) error {
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
