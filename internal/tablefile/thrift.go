package tablefile

import "encoding/binary"

// thriftReader reads Thrift's compact protocol. Its methods return no errors: malformed input sets bad, and every later
// step returns zero values and ends loops, so callers check once.
type thriftReader struct {
	b   []byte // not read yet
	bad bool

	take    func(n int64) error // called by reserve
	refused error               // of take
}

// The protocol's type numbers.
const (
	stopType   = 0 // ends a struct
	boolTrue   = 1
	boolFalse  = 2
	int8Type   = 3
	int16Type  = 4
	int32Type  = 5
	int64Type  = 6
	doubleType = 7
	binaryType = 8
	listType   = 9
	setType    = 10
	mapType    = 11
	structType = 12
)

// maxNesting is how deep skipped structs and lists may nest; Parquet's nest less than ten deep.
const maxNesting = 32

func (c *thriftReader) fail() {
	c.bad, c.b = true, nil
}

// reserve takes memory for n bytes: twice as much, because slices grow by doubling.
func (c *thriftReader) reserve(n int64) bool {
	if c.bad {
		return false
	}
	if c.refused = c.take(2 * n); c.refused != nil {
		c.fail()
	}
	return !c.bad
}

// byte reads one byte.
func (c *thriftReader) byte() byte {
	if len(c.b) == 0 {
		c.fail()
		return 0
	}
	first := c.b[0]
	c.b = c.b[1:]
	return first
}

// uvarint reads an unsigned number of variable length.
func (c *thriftReader) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

// varint reads a signed number of variable length.
func (c *thriftReader) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

// bytes returns the next n bytes, a part of the input.
func (c *thriftReader) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	next := c.b[:n:n]
	c.b = c.b[n:]
	return next
}

// integer reads an integer of the given type.
func (c *thriftReader) integer(kind byte) int64 {
	switch kind {
	case int8Type:
		return int64(int8(c.byte()))
	case int16Type, int32Type, int64Type:
		return c.varint()
	}
	c.fail()
	return 0
}

// boolean reads a boolean: the field's type is its value.
func (c *thriftReader) boolean(kind byte) bool {
	if kind != boolTrue && kind != boolFalse {
		c.fail()
	}
	return kind == boolTrue
}

// binary reads bytes, a part of the input.
func (c *thriftReader) binary(kind byte) []byte {
	if kind != binaryType {
		c.fail()
		return nil
	}
	return c.bytes(c.uvarint())
}

// readStruct calls read for the fields of a struct. Those that it does not read are skipped.
func (c *thriftReader) readStruct(kind byte, read func(id int16, kind byte)) {
	if kind != structType {
		c.fail()
	}
	c.readFields(0, read)
}

// readFields calls read for each field of a struct, up to the byte that ends it. What read does not consume is skipped.
// depth is how many skipped values the struct is inside of, 0 if it is read itself.
func (c *thriftReader) readFields(depth int, read func(id int16, kind byte)) {
	var id int16
	for !c.bad {
		head := c.byte() // 4 bits how much higher the ID is than the one before, 4 bits the type
		kind := head & 15
		if kind == stopType {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			id = int16(c.varint()) // too far from the one before, so it follows
		}
		left := len(c.b)
		if read(id, kind); len(c.b) == left && !c.bad { // a boolean has no bytes: skipping it once more changes nothing
			c.skip(kind, depth)
		}
	}
}

// readList calls read for the elements of a list, which read must read. A list has no more elements than bytes.
func (c *thriftReader) readList(kind byte, read func(kind byte)) {
	if kind != listType {
		c.fail()
		return
	}
	elements, n := c.listHead()
	for ; n > 0 && !c.bad; n-- {
		read(elements)
	}
}

// listHead reads the type of a list's elements and their number: four bits each, where the number 15 says that the
// number follows. A list that has more elements than bytes are left is refused, because each takes one at least.
func (c *thriftReader) listHead() (kind byte, n uint64) {
	head := c.byte()
	n = uint64(head >> 4)
	if n == 15 {
		n = c.uvarint()
	}
	if n > uint64(len(c.b)) {
		c.fail()
		return 0, 0
	}
	return head & 15, n
}

// skip skips a value of the type kind. depth is how many skipped values it is inside of.
func (c *thriftReader) skip(kind byte, depth int) {
	if depth > maxNesting {
		c.fail()
		return
	}
	switch kind {
	case boolTrue, boolFalse:
	case int8Type:
		c.byte()
	case int16Type, int32Type, int64Type:
		c.uvarint()
	case doubleType:
		c.bytes(8)
	case binaryType:
		c.bytes(c.uvarint())
	case listType, setType:
		elements, n := c.listHead()
		for ; n > 0 && !c.bad; n-- {
			c.skipElement(elements, depth+1)
		}
	case mapType:
		c.skipMap(depth + 1)
	case structType:
		c.readFields(depth+1, func(int16, byte) {})
	default:
		c.fail()
	}
}

// skipElement is skip within lists and maps, where booleans take a byte.
func (c *thriftReader) skipElement(kind byte, depth int) {
	if kind == boolTrue || kind == boolFalse {
		c.byte()
		return
	}
	c.skip(kind, depth)
}

// skipMap skips a map: its length, a byte with the types of its keys (high half) and values, and its entries.
func (c *thriftReader) skipMap(depth int) {
	n := c.uvarint()
	if n == 0 {
		return
	}
	kinds := c.byte() // 4 bits the keys' type, 4 bits the values'
	for ; n > 0 && !c.bad; n-- {
		c.skipElement(kinds>>4, depth)
		c.skipElement(kinds&15, depth)
	}
}
