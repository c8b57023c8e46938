// Package metrics reads the metrics that a session's collectors stored: from their chunks, from the tables of an index,
// or from hardware figures.
package metrics

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Hour is the stored metrics of one node in one hour, or the hardware figures of all nodes in one hour.
type Hour struct {
	Node     rayid.Node // nil for hardware figures
	Start    time.Time
	Bytes    int64     // as stored
	stored   time.Time // when the newest of its objects was
	stream   *chunks.Stream
	hardware *hardware // nil for metrics
}

// List lists a session's metrics in a store, in order of time. For a session without metrics it lists the hardware
// figures, which get the names of Ray's metrics.
func List(ctx context.Context, store blob.Lister, root string, ref layout.Session) ([]Hour, error) {
	hours, err := listKind(ctx, store, layout.MetricsPrefix(root, ref), layout.Metrics, root, ref)
	if err != nil || len(hours) > 0 {
		return hours, err
	}
	return listHardware(ctx, store, root, ref)
}

// areHardware says whether hours, one at least, are of hardware figures: List returns these only without metrics.
func areHardware(hours []Hour) bool { return hours[0].hardware != nil }

// listKind lists the hours that objects of one kind below a prefix make up, in the order of time and node.
func listKind(ctx context.Context, store blob.Lister, prefix string, kind layout.Kind, root string,
	ref layout.Session) ([]Hour, error) {
	var hours []Hour
	places := make(map[string]int) // of streams in hours
	for object, err := range store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list metrics of session %s: %w", ref, err)
		}
		o, err := layout.ParseObject(root, ref, object.Key)
		if err != nil || o.Kind != kind {
			continue
		}
		place, known := places[o.Stream]
		if !known {
			place = len(hours)
			places[o.Stream] = place
			hours = append(hours, Hour{Node: o.Node, Start: o.Hour,
				stream: &chunks.Stream{Key: o.Stream, Kind: o.Kind}})
		}
		hours[place].stream.Add(o, object)
		hours[place].Bytes += object.Size
		if object.ModTime.After(hours[place].stored) {
			hours[place].stored = object.ModTime
		}
	}
	for _, h := range hours {
		h.stream.Sort()
	}
	slices.SortFunc(hours, func(a, b Hour) int {
		return cmp.Or(a.Start.Compare(b.Start), bytes.Compare(a.Node[:], b.Node[:]))
	})
	return hours, nil
}

// maxLine limits one line. The series of a table with samples.MaxSeries would be longer, but by default no collector
// writes such a line.
const maxLine = 64 << 20

// visitLines passes the stored lines of an hour to v, until ctx ends. Damaged parts are left out and reported to
// damaged, in order. What reading takes itself comes from work; without enough of it the error is errLargeHour. Other
// errors are of the store or the context.
func (h Hour) visitLines(ctx context.Context, store chunks.Store, v samples.Visitor, work *allowance,
	damaged func(key string, err error)) error {
	if h.hardware != nil {
		return h.visitHardware(ctx, store, v, work, damaged)
	}
	return h.passLines(ctx, store, samples.NewDecoder(v), maxLine, work, damaged)
}

// lineReader receives the lines of an hour.
type lineReader interface {
	Line(ctx context.Context, line []byte) error
	// Lost says that bytes before the next line are missing.
	Lost()
}

// passLines passes the lines of an hour to d. Lines longer than maxLine bytes, and bytes that are not stored, are left
// out, and d is told that something is lost. damaged is called for these, and for lines that d refuses, with the key of
// the object, once for each. work is memory for long lines; errLargeHour says that it is not enough.
func (h Hour) passLines(
	ctx context.Context, store chunks.Store, d lineReader, maxLine int, work *allowance,
	damaged func(key string, err error),
) error {
	// Exact: chunks that were joined since they were listed are a gap, after which callers list the hours again.
	r := chunks.NewReader(ctx, store, h.stream, chunks.Options{Exact: true})
	defer r.Close()
	in := bufio.NewReaderSize(r, lineBuffer)
	reported := "" // the last chunk with a reported bad line: one report for each chunk is enough
	bad := func(err error) {
		if key := r.Key(); key != reported {
			reported = key
			damaged(key, err)
		}
	}
	long := &longLine{work: work} // the beginning of a line that the buffer cannot hold
	defer long.giveBack()
	for ctx.Err() == nil {
		line, err := in.ReadSlice('\n')
		if gap, isGap := errors.AsType[*chunks.Gap](err); isGap {
			d.Lost()
			damaged(gap.Key, gapError{gap})
			long.reset()
			continue // without the line that was cut
		}
		if errors.Is(err, bufio.ErrBufferFull) || len(long.text) > 0 { // line is a part of a long one
			if len(long.text) <= maxLine { // the rest of one that is too long is not kept
				if err := long.append(line); err != nil {
					return err
				}
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			line = long.text
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch {
		case len(line) > maxLine:
			d.Lost()
			bad(fmt.Errorf("%w: a line of more than %d bytes", chunks.ErrDamaged, maxLine))
		case len(line) > 0:
			if err := d.Line(ctx, line); err != nil && ctx.Err() == nil {
				bad(err)
			}
		}
		long.reset()
		if err != nil {
			break
		}
	}
	return context.Cause(ctx)
}

// gapError says what a gap is, without its key.
type gapError struct{ *chunks.Gap }

func (g gapError) Error() string { return g.What() }

// lineBuffer is the buffer of a reader of lines.
const lineBuffer = 256 << 10

// longLine is a line that does not fit in the buffer.
type longLine struct {
	work  *allowance
	taken int64
	text  []byte
}

// append adds bytes to the line. The memory for a larger buffer is taken before it is made, and that of the smaller one
// given back afterwards; errLargeHour says that there is not enough.
func (l *longLine) append(text []byte) error {
	if need := len(l.text) + len(text); need > cap(l.text) {
		size := max(2*cap(l.text), need)
		if l.work.take(int64(size)) != nil { // beside the buffer before
			return errLargeHour
		}
		l.text = append(make([]byte, 0, size), l.text...)
		l.work.giveBack(l.taken)
		l.taken = int64(size)
	}
	l.text = append(l.text, text...)
	return nil
}

// reset begins another line.
func (l *longLine) reset() { l.text = l.text[:0] }

func (l *longLine) giveBack() { l.work.giveBack(l.taken) }
