package logview

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

const (
	// indexStep is the distance of two marks of an index, in bytes: a log of 10 GB has 1,200 marks.
	indexStep = 8 << 20
	// maxMarks bounds the marks of an index. What is behind them is counted again each time: a log seems so long only
	// if the name of a stored chunk is wrong, and then there is little to read.
	maxMarks = 1 << 16
)

// Index knows the numbers of a log's lines. It counts as far as it is asked, and remembers. It is safe for concurrent
// use.
type Index struct {
	mu    sync.Mutex
	marks []int64 // line ends before each step; the first mark is of the second step

	encodingMu sync.Mutex
	encoding   logline.Encoding
	known      bool // the encoding is
}

// Encoding is the encoding of the log's text, by its first bytes: UTF-16, or logline.Bytes for all others.
func (x *Index) Encoding(ctx context.Context, f *sessionlogs.File) (logline.Encoding, error) {
	x.encodingMu.Lock()
	defer x.encodingMu.Unlock()
	if x.known {
		return x.encoding, nil
	}
	encoding, err := encodingOf(ctx, f)
	if err == nil {
		// A short log may grow, and then be seen to be UTF-16.
		x.encoding, x.known = encoding, encoding != logline.Bytes || f.Size() >= encodingBytes
	}
	return encoding, err
}

// before counts the line ends before a step. If the context ends it is counted on next time.
func (x *Index) before(ctx context.Context, f *sessionlogs.File, encoding logline.Encoding, step int64) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for int64(len(x.marks)) < step {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx) // where nothing is stored, nothing that heeds the context is called
		}
		from := int64(len(x.marks)) * indexStep
		n, err := count(ctx, f, encoding, from, from+indexStep)
		if err != nil {
			return 0, err
		}
		if last := len(x.marks) - 1; last >= 0 {
			n += x.marks[last]
		}
		x.marks = append(x.marks, n)
	}
	if step == 0 {
		return 0, nil
	}
	return x.marks[step-1], nil
}

// Number is the number of the line that begins at an offset.
func (x *Index) Number(ctx context.Context, f *sessionlogs.File, offset int64) (int64, error) {
	encoding, err := x.Encoding(ctx, f)
	if err != nil {
		return 0, err
	}
	step := min(offset/indexStep, maxMarks)
	before, err := x.before(ctx, f, encoding, step)
	if err != nil {
		return 0, err
	}
	n, err := count(ctx, f, encoding, step*indexStep, offset)
	return before + n + 1, err
}

// Offset is where a line begins, or where the log ends if it has fewer lines.
func (x *Index) Offset(ctx context.Context, f *sessionlogs.File, line int64) (int64, error) {
	if line <= 1 {
		return 0, nil
	}
	encoding, err := x.Encoding(ctx, f)
	if err != nil {
		return 0, err
	}
	step := int64(0)
	for ; (step+1)*indexStep < f.Size() && step < maxMarks; step++ {
		if n, err := x.before(ctx, f, encoding, step+1); err != nil {
			return 0, err
		} else if n >= line-1 {
			break
		}
	}
	before, err := x.before(ctx, f, encoding, step)
	if err != nil {
		return 0, err
	}
	end := place{encoding: encoding, wanted: line - 1 - before, offset: step * indexStep}
	err = f.WriteRuns(ctx, end.run, step*indexStep, f.Size())
	switch {
	case end.wanted == 0:
		return end.offset, nil
	case err != nil:
		return 0, err
	}
	return f.Size(), nil
}

// count counts the line ends in a range.
func count(ctx context.Context, f *sessionlogs.File, encoding logline.Encoding, from, to int64) (int64, error) {
	n := ends{encoding: encoding}
	err := f.WriteRuns(ctx, n.run, from, to)
	return n.count, err
}

// ends counts the line ends that are written to it.
type ends struct {
	encoding      logline.Encoding
	first         byte // of a character of two bytes
	offset, count int64
}

// run tells where the bytes that are written next begin.
func (n *ends) run(offset int64) io.Writer {
	n.offset = offset
	return n
}

// Write counts the ends of lines. In UTF-16 an end is two bytes, which may come in two writes.
func (n *ends) Write(p []byte) (int, error) {
	if n.encoding == logline.Bytes {
		n.count += int64(bytes.Count(p, []byte{'\n'}))
		return len(p), nil
	}
	for _, c := range p {
		if n.offset&1 == 0 {
			n.first = c
		} else if (c == '\n' || n.first == '\n') && n.encoding.EndsLine(n.first, c) {
			n.count++
		}
		n.offset++
	}
	return len(p), nil
}

// errFound ends a read that has found its line.
var errFound = errors.New("the line was found")

// place stops writing behind the wanted-th line end, and knows its offset.
type place struct {
	encoding       logline.Encoding
	first          byte // of a character of two bytes
	wanted, offset int64
}

// run tells where the bytes that are written next begin.
func (p *place) run(offset int64) io.Writer {
	p.offset = offset
	return p
}

// Write finds the offset after the wanted number of lines, and then returns errFound.
func (p *place) Write(b []byte) (int, error) {
	if p.encoding != logline.Bytes {
		return p.writeTwo(b)
	}
	for rest := b; p.wanted > 0; {
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			p.offset += int64(len(rest))
			return len(b), nil
		}
		p.offset += int64(n) + 1
		p.wanted--
		rest = rest[n+1:]
	}
	return 0, errFound
}

// writeTwo is Write in an encoding of two bytes.
func (p *place) writeTwo(b []byte) (int, error) {
	for _, c := range b {
		if p.wanted == 0 {
			break
		}
		if p.offset&1 == 0 {
			p.first = c
		} else if (c == '\n' || p.first == '\n') && p.encoding.EndsLine(p.first, c) {
			p.wanted--
		}
		p.offset++
	}
	if p.wanted == 0 {
		return 0, errFound
	}
	return len(b), nil
}
