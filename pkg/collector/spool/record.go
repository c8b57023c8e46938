package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
)

// A segment file is segmentMagic followed by records. All numbers are little-endian, all checksums CRC-32C. A record is
// one batch:
//
//	header  magic [4]byte, table bytes uint32, data bytes uint64, arrived int64 (Unix ns), table checksum uint32, header checksum uint32
//	table   for each block: stream ID uint64, local offset int64, bytes uint32, data checksum uint32, key bytes uint16, key
//	data    the blocks' bytes, one after the other
//
// A block is lines of one stream. See Stream for the ID and local offsets.
const (
	segmentMagic   = "RHSPOOL1"
	recordMagic    = "\xa7RH\x01"
	headerBytes    = 4 + 4 + 8 + 8 + 4 + 4
	blockHeadBytes = 8 + 8 + 4 + 4 + 2
	// maxTableBytes is far more than any real batch needs; a longer table counts as damage.
	maxTableBytes = 16 << 20
	maxKeyBytes   = 1 << 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged says that bytes are not as they were written.
var errDamaged = errors.New("damaged")

// block is one entry of a record's table.
type block struct {
	key      []byte // the stream's
	streamID uint64
	start    int64 // local offset
	n        int64
	checksum uint32
	dataAt   int64 // file offset of its bytes; not in the table
}

// appendBlock adds a block to a table. The key is a separate parameter because the writer has it as a string.
func appendBlock(table []byte, e block, key string) []byte {
	table = binary.LittleEndian.AppendUint64(table, e.streamID)
	table = binary.LittleEndian.AppendUint64(table, uint64(e.start))
	table = binary.LittleEndian.AppendUint32(table, uint32(e.n))
	table = binary.LittleEndian.AppendUint32(table, e.checksum)
	table = binary.LittleEndian.AppendUint16(table, uint16(len(key)))
	return append(table, key...)
}

// appendHeader appends a record's header, which has checksums of itself and of the table, but not of the data.
func appendHeader(b, table []byte, dataBytes, arrived int64) []byte {
	start := len(b)
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(table)))
	b = binary.LittleEndian.AppendUint64(b, uint64(dataBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(arrived))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(table, castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// record is the position of a record in its segment file.
type record struct {
	at, dataAt, end int64
	arrived         int64
	table           []byte // valid until the window moves
}

// blocks iterates over the record's blocks.
func (r record) blocks() iter.Seq[block] {
	return func(yield func(block) bool) {
		at := r.dataAt
		for t := r.table; len(t) > 0; {
			e, rest := cutBlock(t)
			if e.dataAt = at; !yield(e) {
				return
			}
			t, at = rest, at+e.n
		}
	}
}

// cutBlock decodes the first block of a table that isTable has accepted, and returns the rest of the table.
func cutBlock(t []byte) (block, []byte) {
	end := blockHeadBytes + int(binary.LittleEndian.Uint16(t[24:]))
	return block{
		streamID: binary.LittleEndian.Uint64(t),
		start:    int64(binary.LittleEndian.Uint64(t[8:])),
		n:        int64(binary.LittleEndian.Uint32(t[16:])),
		checksum: binary.LittleEndian.Uint32(t[20:]),
		key:      t[blockHeadBytes:end],
	}, t[end:]
}

// isTable says whether t is a table of complete entries, whose blocks have dataBytes bytes in total.
func isTable(t []byte, dataBytes uint64) bool {
	var sum uint64
	for len(t) > 0 {
		if len(t) < blockHeadBytes {
			return false
		}
		const keyLengthAt = blockHeadBytes - 2 // the last number of the entry's head
		if keyBytes := binary.LittleEndian.Uint16(t[keyLengthAt:]); len(t) < blockHeadBytes+int(keyBytes) {
			return false
		}
		var e block
		e, t = cutBlock(t)
		if e.n == 0 || e.start < 0 || e.start > maxOffset || len(e.key) == 0 {
			return false
		}
		sum += uint64(e.n)
	}
	return sum == dataBytes
}

// window reads a segment file through a small buffer.
type window struct {
	file io.ReaderAt
	size int64
	at   int64
	buf  []byte // bytes of the file, from offset at
}

// windowBytes holds some dozens of small records, or the head of one large record: its data is not read through the
// window.
const windowBytes = 16 << 10

func newWindow(f io.ReaderAt, size int64) *window {
	return &window{file: f, size: size, buf: make([]byte, 0, windowBytes)}
}

// readBytes returns the n bytes at offset, which must lie within the file. They are valid until the next call.
func (w *window) readBytes(offset int64, n int) ([]byte, error) {
	if offset < w.at || offset+int64(n) > w.at+int64(len(w.buf)) {
		if n > cap(w.buf) {
			w.buf = make([]byte, 0, n)
		}
		w.at, w.buf = offset, w.buf[:min(int64(cap(w.buf)), w.size-offset)]
		got, err := w.file.ReadAt(w.buf, offset)
		if w.buf = w.buf[:got]; got < n {
			return nil, err
		}
	}
	return w.buf[offset-w.at:][:n], nil
}

// readRecord reads the header and the table of the record at offset, as appendHeader and appendBlock write them; the
// data of its blocks is not read. If there is no complete record, the error wraps errDamaged; other errors come from
// the disk. The record's table is valid until the window is used again.
func (w *window) readRecord(offset int64) (record, error) {
	if offset < 0 || w.size-offset < headerBytes {
		return record{}, fmt.Errorf("record at byte %d: the file ends: %w", offset, errDamaged)
	}
	h, err := w.readBytes(offset, headerBytes)
	if err != nil {
		return record{}, err
	}
	if string(h[:4]) != recordMagic || crc32.Checksum(h[:28], castagnoli) != binary.LittleEndian.Uint32(h[28:]) {
		return record{}, fmt.Errorf("record at byte %d: header: %w", offset, errDamaged)
	}
	tableBytes, dataBytes := binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint64(h[8:])
	r := record{at: offset, dataAt: offset + headerBytes + int64(tableBytes),
		arrived: int64(binary.LittleEndian.Uint64(h[16:]))}
	checksum := binary.LittleEndian.Uint32(h[24:])
	if tableBytes == 0 || tableBytes > maxTableBytes || dataBytes > uint64(w.size) ||
		r.dataAt+int64(dataBytes) > w.size {
		return record{}, fmt.Errorf("record at byte %d: %d + %d bytes do not fit: %w", offset, tableBytes, dataBytes,
			errDamaged)
	}
	r.end = r.dataAt + int64(dataBytes)
	if r.table, err = w.readBytes(offset+headerBytes, int(tableBytes)); err != nil {
		return record{}, err
	}
	if crc32.Checksum(r.table, castagnoli) != checksum || !isTable(r.table, dataBytes) {
		return record{}, fmt.Errorf("record at byte %d: table: %w", offset, errDamaged)
	}
	return r, nil
}

func checksumAt(f io.ReaderAt, offset, n int64, buf []byte) (uint32, error) {
	var sum uint32
	for n > 0 {
		b := buf[:min(int64(len(buf)), n)]
		if got, err := f.ReadAt(b, offset); got < len(b) {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		offset, n = offset+int64(len(b)), n-int64(len(b))
	}
	return sum, nil
}

// findRecord returns the offset of the first record at or after offset; the file's size if there is none.
func (w *window) findRecord(offset int64) (int64, error) {
	for ; w.size-offset >= headerBytes; offset++ {
		b, err := w.readBytes(offset, len(recordMagic))
		if err != nil {
			return 0, err
		}
		if string(b) != recordMagic {
			continue
		}
		if _, err := w.readRecord(offset); err == nil {
			return offset, nil
		} else if !errors.Is(err, errDamaged) {
			return 0, err
		}
	}
	return w.size, nil
}
