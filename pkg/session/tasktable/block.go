package tasktable

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Block is consecutive rows of the task table as they are stored, in files of runs as in indexes. Each section is
// compressed by itself; nil if it was not read:
//
//	number of rows | size uncompressed | zstd of: IDs | columns of numbers | of times | of byte strings: lengths, bytes
type Block [numSections][]byte

// PlainBytes is how many bytes the block's sections have uncompressed, by what their headers say.
func (b *Block) PlainBytes() (n int64, err error) {
	for _, stored := range b {
		if stored == nil {
			continue
		}
		_, size, _, err := readHeader(stored)
		if err != nil {
			return 0, err
		}
		n += int64(size)
	}
	return n, nil
}

// maxSection bounds a section, uncompressed.
const maxSection = 1 << 30

// readHeader reads what stands before a section's compressed bytes.
func readHeader(stored []byte) (rows, size int, frame []byte, err error) {
	n, a := binary.Uvarint(stored)
	plain, b := binary.Uvarint(stored[max(0, a):])
	if a <= 0 || b <= 0 || n == 0 || n > GroupRows || plain > maxSection {
		return 0, 0, nil, fmt.Errorf("%w: a block of %d rows and %d bytes", ErrDamaged, n, plain)
	}
	return int(n), int(plain), stored[a+b:], nil
}

// The encoder and the decoder are shared, because each holds some megabytes. The decoder never writes beyond the
// capacity that it is given.
var (
	rowEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10),
			zstd.WithEncoderConcurrency(2))
	})
	rowDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
	})
)

// encode appends section s of the rows, compressed, to out. plain is a buffer for the section before compression; it is
// returned, because it may have grown, for the next call.
func (c *columns) encode(s int, out, plain []byte) (stored, buffer []byte, err error) {
	section := &c.sections[s]
	b := append(plain[:0], section.ids...)
	for _, values := range section.ints {
		b = appendNumbers(b, values)
	}
	for _, values := range section.times {
		b = appendNumbers(b, values)
	}
	for k := range section.blobs {
		b = append(appendNumbers(b, section.lengths[k]), section.blobs[k]...)
	}
	stored, err = compress(out, c.rows, b)
	return stored, b, err
}

// compress appends a section to out: a header with its rows and its length, which readHeader reads, and the bytes
// compressed.
func compress(out []byte, rows int, plain []byte) ([]byte, error) {
	encoder, err := rowEncoder()
	if err != nil {
		return nil, err
	}
	out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(rows)), uint64(len(plain)))
	return encoder.EncodeAll(plain, out), nil
}

// appendNumbers appends a column of at least one value: the least value, a width in bytes, and by how much each value
// is above the least one, in so many bytes. The lowest bytes of all rows come first, then the next ones: so similar
// bytes are next to each other, which compress well and are decoded fast.
func appendNumbers[T int32 | int64 | uint32](b []byte, values []T) []byte {
	least := slices.Min(values)
	width := (bits.Len64(uint64(slices.Max(values))-uint64(least)) + 7) / 8
	b = append(binary.AppendVarint(b, int64(least)), byte(width))
	b = slices.Grow(b, width*len(values))
	for k := range width {
		for _, v := range values {
			b = append(b, byte((uint64(v)-uint64(least))>>(8*k)))
		}
	}
	return b
}

// rowBuffer is the memory of decoded rows, to be used again.
type rowBuffer struct {
	pages []*page
	plain []byte
	ints  []int32
	times []int64
}

// resize returns the buffer's pages for so many rows, with the columns of a part, and makes those that are missing.
func (b *rowBuffer) resize(rows int, part Part) []*page {
	n := (rows + pageRows - 1) / pageRows
	for len(b.pages) < n {
		b.pages = append(b.pages, new(page))
	}
	for _, p := range b.pages[:n] {
		if part != ScanPart && p.pageCells == nil {
			p.pageCells = new(pageCells)
		}
	}
	return b.pages[:n]
}

// decode makes pages of some blocks, which together must have so many rows; of their columns only those of part. The
// pages are in the buffer into and valid until it is used again. What is malformed, or refers to something beyond the
// limits, is ErrDamaged.
func (l limits) decode(blocks []Block, rows int, part Part, into *rowBuffer) ([]*page, error) {
	pages := into.resize(rows, part)
	if part&(placePart|restPart) != 0 {
		arenas := new(arenas)
		for _, p := range pages {
			p.arenas = arenas
		}
	}
	at := 0 // the block's first row
	for i := range blocks {
		n := 0 // the block's rows; 0 until a section says it
		for s := range sections {
			if !part.Has(s) {
				continue
			}
			d, err := newDecoder(blocks[i][s], into)
			if err != nil {
				return nil, err
			}
			if d.rows > rows-at || n > 0 && d.rows != n {
				return nil, fmt.Errorf("%w: a block of %d rows, want %d of %d", ErrDamaged, d.rows, n, rows-at)
			}
			n = d.rows
			if err := d.readSection(l, &sections[s], pages, at); err != nil {
				return nil, err
			}
		}
		at += n
	}
	if at != rows {
		return nil, fmt.Errorf("%w: %d rows, want %d", ErrDamaged, at, rows)
	}
	return pages, nil
}

// decoder reads a section of a block.
type decoder struct {
	*rowBuffer
	rows int
	data []byte // that was not read yet
}

// newDecoder returns a decoder of a stored section, which it decompresses into the memory of a buffer.
func newDecoder(stored []byte, into *rowBuffer) (*decoder, error) {
	rows, size, frame, err := readHeader(stored)
	if err != nil {
		return nil, err
	}
	z, err := rowDecoder()
	if err != nil {
		return nil, err
	}
	into.plain, err = z.DecodeAll(frame, slices.Grow(into.plain[:0], size)[:0:size])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &decoder{rowBuffer: into, rows: rows, data: into.plain}, nil
}

// readSection decodes all columns of a section, in the order in which encode wrote them, into the rows of pages that
// begin at row at, and checks what they refer to against limits. Bytes that are left over are damage.
func (d *decoder) readSection(l limits, columns *section, pages []*page, at int) error {
	if columns.ids {
		ids, err := d.take(int64(d.rows) * rayid.TaskSize)
		if err != nil {
			return err
		}
		for p := range slicesOf(pages, at, d.rows) {
			for k := p.from; k < p.to; k++ {
				p.id[p.i+k-p.from] = rayid.Task(ids[k*rayid.TaskSize:])
			}
		}
	}
	var err error
	for c := range columns.ints {
		if d.ints, err = readNumbers(d, d.ints); err != nil {
			return err
		}
		if err := l.checkReferences(&columns.ints[c], d.ints); err != nil {
			return err
		}
		for p := range slicesOf(pages, at, d.rows) {
			columns.ints[c].set(p.page, p.i, d.ints[p.from:p.to])
		}
	}
	for _, c := range columns.times {
		if d.times, err = readNumbers(d, d.times); err != nil {
			return err
		}
		for p := range slicesOf(pages, at, d.rows) {
			copy(p.timeColumns()[c][p.i:], d.times[p.from:p.to])
		}
	}
	for c := range columns.blobs {
		if err := d.readBlobs(l, columns.blobs[c], pages, at); err != nil {
			return err
		}
	}
	if len(d.data) > 0 {
		return fmt.Errorf("%w: rows with %d bytes too many", ErrDamaged, len(d.data))
	}
	return nil
}

// readBlobs decodes a column of byte strings into the rows of pages that begin at row at. All lengths come first, then
// the bytes. A page's cell gets a reference to its bytes, 0 if there are none.
func (d *decoder) readBlobs(l limits, column blobColumn, pages []*page, at int) (err error) {
	if d.ints, err = readNumbers(d, d.ints); err != nil {
		return err
	}
	for p := range slicesOf(pages, at, d.rows) {
		references := column.references(p.pageCells)[p.i:]
		for k, length := range d.ints[p.from:p.to] {
			if references[k] = 0; length == 0 {
				continue
			}
			blob, err := d.take(int64(length))
			if err == nil {
				references[k], err = column.decodeInto(l, p.arenas, blob)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readNumbers decodes a column that appendNumbers wrote. The result uses the memory of out if that is enough.
func readNumbers[T int32 | int64](d *decoder, out []T) ([]T, error) {
	least, n := binary.Varint(d.data)
	if n <= 0 || n == len(d.data) || d.data[n] > 8 {
		return nil, fmt.Errorf("%w: a column of numbers cannot be read", ErrDamaged)
	}
	width := int(d.data[n])
	d.data = d.data[n+1:]
	planes, err := d.take(int64(width) * int64(d.rows))
	if err != nil {
		return nil, err
	}
	out = slices.Grow(out[:0], d.rows)[:d.rows]
	for i := range out {
		out[i] = T(least)
	}
	for k := range width {
		for i, b := range planes[k*d.rows:][:len(out)] {
			out[i] += T(b) << (8 * k)
		}
	}
	return out, nil
}

// take returns the next n bytes.
func (d *decoder) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(d.data)) {
		return nil, fmt.Errorf("%w: rows end too early", ErrDamaged)
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken, nil
}

// pageRange is rows of a page: the page's row i and those behind it. In the list of rows that was divided they have the
// numbers [from, to).
type pageRange struct {
	*page
	i, from, to int
}

// slicesOf yields the n rows that begin at row at as ranges of rows, each within one page.
func slicesOf(pages []*page, at, n int) iter.Seq[pageRange] {
	return func(yield func(pageRange) bool) {
		for from := 0; from < n; {
			row := at + from
			r := pageRange{page: pages[row>>pageBits], i: row & (pageRows - 1), from: from}
			r.to = min(n, from+pageRows-r.i)
			if !yield(r) {
				return
			}
			from = r.to
		}
	}
}
