package tablefile

import (
	"encoding/binary"
	"errors"
)

var errDelta = errors.New("the encoded differences cannot be read")

// maxDeltaBlock bounds the values of a block; writers make blocks of 128.
const maxDeltaBlock = 64 << 10

// appendDeltas decodes as many values as rows says, of so many bits each, from the encoding DELTA_BINARY_PACKED. It
// appends them to out, and returns out and the bytes behind the values. The encoding packs the differences from value
// to value, less the smallest one of each block, in as few bits as the largest of a part of the block needs.
func appendDeltas[T int32 | int64](out []T, b []byte, rows, bits int) ([]T, []byte, error) {
	c := &thriftReader{b: b}
	blockRows, parts, total, value := c.uvarint(), c.uvarint(), c.uvarint(), T(c.varint())
	hasBlocks := blockRows > 0 && blockRows <= maxDeltaBlock
	hasParts := parts > 0 && blockRows%parts == 0 && (blockRows/parts)%8 == 0 // of whole bytes, whatever the width
	if c.bad || !hasBlocks || !hasParts || total != uint64(rows) {
		return out, nil, errDelta
	}
	out = append(out, value)
	left := rows - 1
	partRows := int(blockRows / parts)
	for left > 0 {
		least := T(c.varint())
		widths := c.bytes(parts)
		for _, width := range widths {
			if left == 0 {
				break
			}
			if int(width) > bits {
				return out, nil, errDelta
			}
			packed := c.b // with what follows, so that values may be read eight bytes at a time
			if c.bytes(uint64(partRows / 8 * int(width))); c.bad {
				return out, nil, errDelta
			}
			n := min(left, partRows)
			out = appendPart(out, packed, n, uint(width), least)
			left -= n
		}
		if c.bad {
			return out, nil, errDelta
		}
	}
	return out, c.b, nil
}

// appendPart appends n values to out, which is not empty. Each is the sum of the value before it, least and a packed
// number of width bits.
func appendPart[T int32 | int64](out []T, packed []byte, n int, width uint, least T) []T {
	value := out[len(out)-1]
	if width == 0 {
		for range n {
			value += least
			out = append(out, value)
		}
		return out
	}
	mask := uint64(1)<<width - 1 // all bits where width is 64
	for i := range n {
		bit := uint(i) * width
		at, shift := bit/8, bit%8
		bits := wordAt(packed, at) >> shift
		if shift+width > 64 {
			bits |= uint64(packed[at+8]) << (64 - shift)
		}
		value += least + T(bits&mask)
		out = append(out, value)
	}
	return out
}

// wordAt reads 8 bytes; bytes behind the end count as 0.
func wordAt(b []byte, at uint) (w uint64) {
	if at+8 <= uint(len(b)) {
		return binary.LittleEndian.Uint64(b[at:])
	}
	for i, v := range b[at:] {
		w |= uint64(v) << (8 * i)
	}
	return w
}
