package logview

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"golang.org/x/sync/semaphore"

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
	counting *semaphore.Weighted
	marks    []int64 // line ends before each step; the first mark is of the second step

	encodingMu sync.Mutex
	encoding   logline.Encoding
	known      bool // the encoding is
}

// NewIndex makes an index that has counted nothing yet.
func NewIndex() *Index { return &Index{counting: semaphore.NewWeighted(1)} }

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

// lineEndsBefore returns how many line ends there are before the offset step × indexStep. What it counts is kept in
// x.marks, one for each step, also if the context ends meanwhile: the next call goes on from there. One call at a time
// counts.
func (x *Index) lineEndsBefore(ctx context.Context, f *sessionlogs.File, encoding logline.Encoding,
	step int64) (int64, error) {
	if x.counting.Acquire(ctx, 1) != nil {
		return 0, context.Cause(ctx)
	}
	defer x.counting.Release(1)
	for int64(len(x.marks)) < step {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx) // where nothing is stored, nothing that heeds the context is called
		}
		from := int64(len(x.marks)) * indexStep
		n, err := countLineEnds(ctx, f, encoding, from, from+indexStep)
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

// Number is the number of the line that begins at an offset, counted from 1. Behind maxMarks steps, lines are counted
// again by each call.
func (x *Index) Number(ctx context.Context, f *sessionlogs.File, offset int64) (int64, error) {
	encoding, err := x.Encoding(ctx, f)
	if err != nil {
		return 0, err
	}
	step := min(offset/indexStep, maxMarks)
	before, err := x.lineEndsBefore(ctx, f, encoding, step)
	if err != nil {
		return 0, err
	}
	n, err := countLineEnds(ctx, f, encoding, step*indexStep, offset)
	return before + n + 1, err
}

// Offset is where a line, counted from 1, begins, or where the log ends if it has fewer lines. It looks for the step in
// which the line begins, and then for the line end before it.
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
		if n, err := x.lineEndsBefore(ctx, f, encoding, step+1); err != nil {
			return 0, err
		} else if n >= line-1 {
			break
		}
	}
	before, err := x.lineEndsBefore(ctx, f, encoding, step)
	if err != nil {
		return 0, err
	}
	end := lineEnds{encoding: encoding, left: line - 1 - before, offset: step * indexStep}
	err = f.WriteRuns(ctx, end.writerAt, step*indexStep, f.Size())
	switch {
	case end.left == 0: // the line end was found, and err is errFound
		return end.offset, nil
	case err != nil:
		return 0, err
	}
	return f.Size(), nil
}

func countLineEnds(ctx context.Context, f *sessionlogs.File, encoding logline.Encoding, from, to int64) (int64, error) {
	ends := lineEnds{encoding: encoding, left: math.MaxInt64}
	err := f.WriteRuns(ctx, ends.writerAt, from, to)
	return math.MaxInt64 - ends.left, err
}

// errFound ends a read that has found its line.
var errFound = errors.New("the line was found")

// lineEnds counts the line ends that are written to it down from left, and knows the offset behind the last one.
type lineEnds struct {
	encoding    logline.Encoding
	firstOfPair byte  // of a character of two bytes
	left        int64 // line ends that are still to be counted
	offset      int64 // behind what was written; when no end is left, behind the last one
}

// writerAt tells where the bytes that are written next begin.
func (e *lineEnds) writerAt(offset int64) io.Writer {
	e.offset = offset
	return e
}

// Write returns errFound when no line end is left to be counted.
func (e *lineEnds) Write(p []byte) (int, error) {
	if e.encoding != logline.Bytes {
		e.countPairs(p)
	} else {
		e.countBytes(p)
	}
	if e.left == 0 {
		return 0, errFound
	}
	return len(p), nil
}

// countBytes goes through the next bytes of a log in an encoding in which a line end is one byte: it moves e.offset
// behind them, or behind the last line end that is looked for.
func (e *lineEnds) countBytes(p []byte) {
	if n := int64(bytes.Count(p, []byte{'\n'})); n < e.left {
		e.left -= n
		e.offset += int64(len(p))
		return
	}
	for ; e.left > 0; e.left-- {
		n := bytes.IndexByte(p, '\n') + 1
		e.offset += int64(n)
		p = p[n:]
	}
}

// countPairs is countBytes in an encoding in which a line end is two bytes, the first at an even offset. These may come
// in two writes.
func (e *lineEnds) countPairs(p []byte) {
	for _, c := range p {
		if e.left == 0 {
			return
		}
		if e.offset&1 == 0 {
			e.firstOfPair = c
		} else if (c == '\n' || e.firstOfPair == '\n') && e.encoding.EndsLine(e.firstOfPair, c) {
			e.left--
		}
		e.offset++
	}
}
