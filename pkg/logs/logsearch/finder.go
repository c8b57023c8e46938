package logsearch

import (
	"bytes"
	"context"
	"encoding/binary"
)

// finder goes through a block of whole lines, from one line that may match to the next. It holds the memory that this
// takes for one pattern; it is not safe for concurrent use.
type finder struct {
	*pattern
	block   []byte
	text    []byte // block, in small letters if the pattern's literals are
	lowered []byte // memory for text
	nextAt  []int  // where each literal is next; len(block) if it is not
}

func newFinder(p *pattern) *finder { return &finder{pattern: p, nextAt: make([]int, len(p.literals))} }

// setBlock sets the block that is searched from now on; for a search without regard to case (fold) it makes a copy in
// small letters. It forgets where literals were found in the block before.
func (f *finder) setBlock(block []byte) {
	f.block, f.text = block, block
	if f.fold {
		if cap(f.lowered) < len(block) {
			f.lowered = make([]byte, len(block))
		}
		f.text = f.lowered[:len(block)]
		lowerInto(f.text, block)
	}
	for i := range f.nextAt {
		f.nextAt[i] = -1
	}
}

// nextCandidate returns the first place in the block, at or after pos, of a line that may match: at is in that line.
// size is the match's length in bytes if it is certain that a match begins at at, otherwise 0: then the caller searches
// the line. ok is false if no line behind pos can match. pos must be the start of a line.
//
// Without literals the block is searched by the regular expression in pieces of whole lines, about maxPiece / 2 bytes
// each, so that the end of ctx is seen in between. If the expression looks at a text's begin or end (perLine), each
// line is a candidate.
func (f *finder) nextCandidate(ctx context.Context, pos int) (at, size int, ok bool) {
	switch {
	case pos >= len(f.block):
		return 0, 0, false
	case len(f.literals) > 0:
		return f.nextLiteral(pos)
	case f.perLine:
		return pos, 0, true
	}
	for ctx.Err() == nil && pos < len(f.block) {
		end := len(f.block)
		if end > pos+maxPiece/2 {
			if n := bytes.IndexByte(f.block[pos+maxPiece/2:], '\n'); n >= 0 {
				end = pos + maxPiece/2 + n + 1
			}
		}
		if end-pos > maxPiece {
			return pos, 0, true // a long line: find looks at ctx while it searches it, FindIndex here would not
		}
		if found := f.re.FindIndex(f.block[pos:end]); found != nil && pos+found[0] < len(f.block) { // in a line
			return pos + found[0], 0, true
		}
		pos = end
	}
	return 0, 0, false
}

// nextLiteral is nextCandidate for a pattern of which each match has one of some literals: it finds the first one.
// Without a regular expression the literal is the match.
func (f *finder) nextLiteral(pos int) (at, size int, ok bool) {
	at = len(f.block)
	for i, literal := range f.literals {
		if f.nextAt[i] < pos { // the place that was found last is behind us
			f.nextAt[i] = len(f.block) // there is no further one, unless it is found
			if n := bytes.Index(f.text[pos:], literal); n >= 0 {
				f.nextAt[i] = pos + n
			}
		}
		if f.nextAt[i] < at {
			at = f.nextAt[i]
			if f.re == nil {
				size = len(literal)
			}
		}
	}
	return at, size, at < len(f.block)
}

// lowerInto copies src to dst with the capital letters of ASCII made small, eight bytes at a time.
func lowerInto(dst, src []byte) {
	const ones = 0x0101010101010101
	dst = dst[:len(src)]
	for len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		low := v & (0x7f * ones)
		// By bit 7 of each byte: it is at least "A", not more than "Z", and ASCII.
		capital := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ v & (0x80 * ones)
		binary.LittleEndian.PutUint64(dst, v|capital>>2) // bit 5, which capital letters lack
		src, dst = src[8:], dst[8:]
	}
	for i, c := range src {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst[i] = c
	}
}
