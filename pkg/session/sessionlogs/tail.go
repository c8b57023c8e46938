package sessionlogs

import (
	"context"
	"io"
	"sort"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Of a plain chunk tailBlock bytes are read at first when looking backwards for line ends, then more, up to
// maxTailBlock.
const (
	tailBlock    = 64 << 10
	maxTailBlock = 1 << 20
)

// TailStart is the offset at which the last n lines before the offset end begin. It reads the log backwards, so it
// reads little more than these lines, or a whole chunk where that is compressed. A last line without a line end counts
// as a line. If the lines have more than limit bytes together, the result is end - limit.
func (f *File) TailStart(ctx context.Context, end int64, n int, limit int64) (int64, error) {
	end = min(end, f.Size())
	if n <= 0 {
		return end, nil
	}
	first := max(0, end-limit)
	lines := lineEnds{wanted: n}
	block := int64(tailBlock)
	for pos := end; pos > first; {
		start, compressed := f.blockStart(pos, block)
		found, err := int64(0), error(nil)
		if compressed {
			found, err = lines.searchStream(func(w io.Writer) error { return f.WriteRange(ctx, w, start, pos) })
		} else {
			var buf []byte
			if buf, err = f.ReadRange(ctx, start, pos); err == nil {
				found = lines.search(buf)
			}
			block = min(block*2, maxTailBlock)
		}
		if err != nil {
			return 0, err
		}
		if found >= 0 {
			return max(first, start+found+1), nil
		}
		pos = start
	}
	return first, nil
}

// blockStart is the offset at which the block of bytes that ends at the offset pos starts. The block has at most block
// bytes, except that one of a compressed chunk starts where the chunk does, and one in a gap, where nothing is read,
// where the gap does. A block spans neither several chunks nor a gap and stored bytes, so offsets within it are offsets
// in the file. compressed says that the block is in a compressed chunk.
func (f *File) blockStart(pos, block int64) (start int64, compressed bool) {
	i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].end >= pos })
	if i == len(f.segments) {
		return max(0, pos-block), false // past the end
	}
	s := f.segments[i]
	switch {
	case pos <= s.start && i == 0:
		return 0, false
	case pos <= s.start: // a gap
		return f.segments[i-1].end, false
	case s.chunk.compression != layout.Plain:
		return s.start, true
	}
	return max(s.start, pos-block), false
}
