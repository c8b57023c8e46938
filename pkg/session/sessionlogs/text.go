package sessionlogs

import (
	"bytes"
	"context"
	"sort"
)

// Text is stored bytes of a log, one after the other, whatever is missing between them. It knows where in the log each
// was.
type Text struct {
	Bytes []byte
	runs  []run
}

// run is bytes of a text without a gap, up to the next run.
type run struct {
	index  int   // in the text
	offset int64 // in the log
}

// Offset is where in the log the i-th byte of the text was. For len(Bytes) it is where the bytes after the text begin,
// or the end of what was to be read.
func (t *Text) Offset(i int) int64 {
	r := t.runs[sort.Search(len(t.runs), func(n int) bool { return t.runs[n].index > i })-1]
	return r.offset + int64(i-r.index)
}

// ReadText reads the stored bytes of [start, end), the first ones up to limit bytes. The text's last run is where it
// goes on: at the next stored byte, or at end if nothing is left.
func (f *File) ReadText(ctx context.Context, start, end, limit int64) (Text, error) {
	var b bytes.Buffer
	var runs []run
	next := start
	for i := f.segmentAt(start); i < len(f.segments) && f.segments[i].start < end && int64(b.Len()) < limit; i++ {
		s := f.segments[i]
		from := max(start, s.start)
		next = min(end, s.end, from+limit-int64(b.Len()))
		runs = append(runs, run{b.Len(), from})
		if err := f.copySegment(ctx, &b, s.chunk, from-s.chunk.offset, next-from); err != nil {
			return Text{}, err
		}
	}
	if i := f.segmentAt(next); int64(b.Len()) == limit && i < len(f.segments) {
		next = min(end, max(next, f.segments[i].start))
	} else {
		next = end
	}
	return Text{Bytes: b.Bytes(), runs: append(runs, run{b.Len(), next})}, nil
}

// StoredBefore is where the last stored bytes before end do end. It may be behind them if their chunk is compressed.
func (f *File) StoredBefore(end int64) int64 {
	if s := f.segmentBefore(end); s != nil {
		return min(end, s.end)
	}
	return 0
}

// TextBefore is where the last stored bytes before end do end. Unlike StoredBefore it reads their chunk, and so is
// right for compressed ones, too. If the chunk turns out to be empty, it is where the chunk begins.
func (f *File) TextBefore(ctx context.Context, end int64) (int64, error) {
	s := f.segmentBefore(end)
	if s == nil {
		return 0, nil
	}
	var n byteCounter
	err := f.copySegment(ctx, &n, s.chunk, s.start-s.chunk.offset, min(end, s.end)-s.start)
	return s.start + int64(n), err
}

// segmentBefore is the last segment that begins before end; nil if none does.
func (f *File) segmentBefore(end int64) *segment {
	i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].start >= end })
	if i == 0 {
		return nil
	}
	return &f.segments[i-1]
}
