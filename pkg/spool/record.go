package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
)

// A segment file is the bytes of segmentMagic and then records; all numbers are little-endian, all checksums CRC-32C. A record is one
// batch:
//
//	header  magic [4]byte, table bytes uint32, data bytes uint64, arrived int64 (Unix ns), table checksum uint32, header checksum uint32
//	table   for each extent: generation uint64, start int64, bytes uint32, data checksum uint32, key bytes uint16, key
//	data    the extents' bytes, one after the other
//
// An extent is whole lines of one whole. Its start is its place in the stream (see Stream), its generation that of the stream.
const (
	segmentMagic    = "RHSPOOL1"
	recordMagic     = "\xa7RH\x01"
	headerBytes     = 4 + 4 + 8 + 8 + 4 + 4
	extentHeadBytes = 8 + 8 + 4 + 4 + 2
	// maxTableBytes is far above any real batch's; a longer one is taken for damage.
	maxTableBytes = 16 << 20
	maxKeyBytes   = 1 << 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: the bytes are not what was written.
var errDamaged = errors.New("damaged")

// extent is one table entry.
type extent struct {
	whole      []byte
	generation uint64
	start      int64
	n          int64
	checksum   uint32
}

// appendExtent adds an entry to a table; the key is given apart from the extent, as a string.
func appendExtent(table []byte, e extent, whole string) []byte {
	table = binary.LittleEndian.AppendUint64(table, e.generation)
	table = binary.LittleEndian.AppendUint64(table, uint64(e.start))
	table = binary.LittleEndian.AppendUint32(table, uint32(e.n))
	table = binary.LittleEndian.AppendUint32(table, e.checksum)
	table = binary.LittleEndian.AppendUint16(table, uint16(len(whole)))
	return append(table, whole...)
}

func appendHeader(b, table []byte, dataBytes, arrived int64) []byte {
	start := len(b)
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(table)))
	b = binary.LittleEndian.AppendUint64(b, uint64(dataBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(arrived))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(table, castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// record is a record's place in its segment file.
type record struct {
	at, dataAt, end int64
	arrived         int64
	table           []byte // valid until the window moves
}

// extents walks over the record's extents and the file offsets of their data.
func (r record) extents() iter.Seq2[extent, int64] {
	return func(yield func(extent, int64) bool) {
		at := r.dataAt
		for t := r.table; len(t) > 0; {
			e, rest := cutExtent(t)
			if !yield(e, at) {
				return
			}
			t, at = rest, at+e.n
		}
	}
}

// cutExtent reads the first extent of a table that checkTable found good.
func cutExtent(t []byte) (extent, []byte) {
	end := extentHeadBytes + int(binary.LittleEndian.Uint16(t[24:]))
	return extent{
		generation: binary.LittleEndian.Uint64(t),
		start:      int64(binary.LittleEndian.Uint64(t[8:])),
		n:          int64(binary.LittleEndian.Uint32(t[16:])),
		checksum:   binary.LittleEndian.Uint32(t[20:]),
		whole:      t[extentHeadBytes:end],
	}, t[end:]
}

// checkTable says whether t is whole extents of dataBytes together.
func checkTable(t []byte, dataBytes uint64) bool {
	var sum uint64
	for len(t) > 0 {
		if len(t) < extentHeadBytes || len(t) < extentHeadBytes+int(binary.LittleEndian.Uint16(t[24:])) {
			return false
		}
		var e extent
		e, t = cutExtent(t)
		if e.n == 0 || e.start < 0 || e.start > maxOffset || len(e.whole) == 0 {
			return false
		}
		sum += uint64(e.n)
	}
	return sum == dataBytes
}

// window reads a segment file through one small buffer.
type window struct {
	file io.ReaderAt
	size int64
	at   int64
	buf  []byte // the bytes of the file from at
}

const windowBytes = 64 << 10

func newWindow(f io.ReaderAt, size int64) *window {
	return &window{file: f, size: size, buf: make([]byte, 0, windowBytes)}
}

// bytes are the n bytes at offset, which must lie within the file. They are valid until the next call.
func (w *window) bytes(offset int64, n int) ([]byte, error) {
	if offset < w.at || offset+int64(n) > w.at+int64(len(w.buf)) {
		if n > cap(w.buf) {
			w.buf = make([]byte, 0, n)
		}
		w.at, w.buf = offset, w.buf[:min(int64(cap(w.buf)), w.size-offset)]
		if got, err := w.file.ReadAt(w.buf, offset); got < len(w.buf) {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	return w.buf[offset-w.at:][:n], nil
}

// record reads the record at offset. Bytes that are none are errDamaged; other errors are the disk's.
func (w *window) record(offset int64) (record, error) {
	if offset < 0 || w.size-offset < headerBytes {
		return record{}, fmt.Errorf("record at byte %d: the file ends: %w", offset, errDamaged)
	}
	h, err := w.bytes(offset, headerBytes)
	if err != nil {
		return record{}, err
	}
	if string(h[:4]) != recordMagic || crc32.Checksum(h[:28], castagnoli) != binary.LittleEndian.Uint32(h[28:]) {
		return record{}, fmt.Errorf("record at byte %d: header: %w", offset, errDamaged)
	}
	tableBytes, dataBytes := binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint64(h[8:])
	r := record{at: offset, dataAt: offset + headerBytes + int64(tableBytes), arrived: int64(binary.LittleEndian.Uint64(h[16:]))}
	checksum := binary.LittleEndian.Uint32(h[24:])
	if tableBytes == 0 || tableBytes > maxTableBytes || dataBytes > uint64(w.size) || r.dataAt+int64(dataBytes) > w.size {
		return record{}, fmt.Errorf("record at byte %d: %d + %d bytes do not fit: %w", offset, tableBytes, dataBytes, errDamaged)
	}
	r.end = r.dataAt + int64(dataBytes)
	if r.table, err = w.bytes(offset+headerBytes, int(tableBytes)); err != nil {
		return record{}, err
	}
	if crc32.Checksum(r.table, castagnoli) != checksum || !checkTable(r.table, dataBytes) {
		return record{}, fmt.Errorf("record at byte %d: table: %w", offset, errDamaged)
	}
	return r, nil
}

// checksum reads n bytes at offset for their checksum.
func checksum(f io.ReaderAt, offset, n int64, buf []byte) (uint32, error) {
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

// find is the offset of the next record at or after offset, the file's size if there is none: where a walk goes on behind damage.
func (w *window) find(offset int64) (int64, error) {
	for ; w.size-offset >= headerBytes; offset++ {
		b, err := w.bytes(offset, 4)
		if err != nil {
			return 0, err
		}
		if string(b) != recordMagic {
			continue
		}
		if _, err := w.record(offset); err == nil {
			return offset, nil
		} else if !errors.Is(err, errDamaged) {
			return 0, err
		}
	}
	return w.size, nil
}
