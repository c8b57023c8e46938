package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rayhistory/historyserver/pkg/chunks"
)

const (
	// exportBytes bounds the memory of the part of an hour that an export reads at once, and that of the targets of all
	// hours.
	exportBytes = 256 << 20
	// maxExportParts bounds into how many parts an hour that does not fit is divided; it is read for each.
	maxExportParts = 16
)

var errExportHour = fmt.Errorf(
	"an hour of a node has more series or values than fit into %d bytes of memory: the export ends here",
	exportBytes*maxExportParts)

// WriteOpenMetrics writes all samples of the hours in the OpenMetrics text format, as `promtool tsdb create-blocks-from
// openmetrics` takes it: each with its time, an hour and node after the other, "# EOF" at the end. Samples of one
// series are in order of time. What is damaged is left out and reported.
func WriteOpenMetrics(ctx context.Context, w io.Writer, store chunks.Store, hours []Hour, damaged func(error),
	done func(Hour)) error {
	o := &openMetrics{store: store, w: bufio.NewWriterSize(w, 256<<10), memory: exportBytes,
		last: make(map[string]int64), targets: newAllowance(exportBytes)}
	return o.writeHours(ctx, hours, damaged, done)
}

// openMetrics writes samples as text.
type openMetrics struct {
	store   chunks.Store
	w       *bufio.Writer
	memory  int64            // for a part of an hour
	last    map[string]int64 // of each target, as a dictionary spells it: its last read that was written
	targets *allowance       // for these
	buf     []byte
}

// writeHours writes the samples of hours, which are in the order of time, as OpenMetrics. damaged is called for what
// cannot be read, done after each hour.
func (o *openMetrics) writeHours(ctx context.Context, hours []Hour, damaged func(error), done func(Hour)) error {
	for _, h := range hours {
		newest := make(map[string]int64)
		found, err := o.writeHour(ctx, h, someSeries{parts: 1}, newest) // all series, if they fit in memory
		if err != nil {
			return err
		}
		for _, err := range found {
			damaged(err)
		}
		if err := o.noteWritten(newest); err != nil {
			return err
		}
		done(h)
	}
	if _, err := o.w.WriteString("# EOF\n"); err != nil {
		return err
	}
	return o.w.Flush()
}

// someSeries are those of one of so many parts of about the same size.
type someSeries struct{ parts, part uint64 }

func (s someSeries) has(l labels.Labels) bool { return l.Hash()%s.parts == s.part }

// writeHour writes an hour's samples of some series: in two halves if they do not fit in memory, each of which is
// divided again if need be. It returns what is damaged, and adds the time of the last read of each target to newest.
// Samples up to the target's last read in an earlier hour (o.last) are left out: they were written.
func (o *openMetrics) writeHour(ctx context.Context, h Hour, some someSeries,
	newest map[string]int64) ([]error, error) {
	const sessionEnded = 0
	d := NewDatabase(o.store, nil, sessionEnded, o.memory) // nil: no hours are listed
	d.names.only = some.has
	memory := newAllowance(o.memory - d.names.maxBytes) // the names of series may take the rest
	l := d.readBlock(ctx, h, func(string) bool { return ctx.Err() == nil }, memory, memory)
	switch tooMuch := errors.Is(l.err, ErrTooMuch); {
	case tooMuch && some.parts < maxExportParts:
		damaged, err := o.writeHour(ctx, h, someSeries{2 * some.parts, some.part}, newest)
		if err == nil {
			_, err = o.writeHour(ctx, h, someSeries{2 * some.parts, some.part + some.parts}, newest)
		}
		return damaged, err
	case tooMuch:
		return nil, fmt.Errorf("metrics of %s at %s: %w", h.Node, h.Start.Format(time.RFC3339), errExportHour)
	case l.err != nil:
		return nil, l.err
	}
	after := make(map[uint32]int64) // by target: its last read in an earlier hour
	for target, id := range d.names.targets {
		last, known := o.last[target]
		if !known {
			last = minTime // all of its samples count
		}
		after[id] = last
		if t := l.block.targetByID(id); t != nil && len(t.times) > 0 {
			newest[target] = t.times[len(t.times)-1]
		}
	}
	alone := hourBlocks{blocks: []hourBlock{{h, l.block}}, until: math.MinInt64} // no target counts as gone
	for _, number := range l.block.series {
		s := d.collectSeries(number, alone, math.MinInt64, math.MaxInt64)
		if s == nil {
			continue
		}
		if err := o.writeSeries(ctx, s, after[d.names.seriesOf(number).target]); err != nil {
			return nil, err
		}
	}
	return l.damaged, nil
}

// noteWritten records that an hour was written with these last reads, by target: later hours are written from there on.
func (o *openMetrics) noteWritten(newest map[string]int64) error {
	for target, at := range newest {
		last, known := o.last[target]
		if !known && o.targets.take(int64(len(target))+targetBytes) != nil {
			return fmt.Errorf("the targets of the session take more than %d bytes", exportBytes)
		}
		if !known || at > last {
			o.last[target] = at
		}
	}
	return nil
}

// writeSeries writes a line for each sample of a series after a time (Unix milliseconds).
func (o *openMetrics) writeSeries(ctx context.Context, s *Series, after int64) error {
	o.buf = appendSeries(o.buf[:0], s.labels)
	begin := len(o.buf)
	for it := s.Iterator(after+1, math.MaxInt64); it.Next() == chunkenc.ValFloat; {
		at, v := it.At()
		if value.IsStaleNaN(v) {
			continue // it was not exposed
		}
		o.buf = appendValue(append(o.buf[:begin], ' '), v)
		o.buf = strconv.AppendFloat(append(o.buf, ' '), float64(at)/1000, 'f', 3, 64)
		o.buf = append(o.buf, '\n')
		if _, err := o.w.Write(o.buf); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func appendSeries(out []byte, l labels.Labels) []byte {
	out = append(out, l.Get(model.MetricNameLabel)...)
	separator := byte('{')
	l.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			return
		}
		out = append(append(append(out, separator), l.Name...), `="`...)
		out = append(append(out, escapeLabel.Replace(l.Value)...), '"')
		separator = ','
	})
	if separator == ',' {
		out = append(out, '}')
	}
	return out
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func appendValue(out []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(out, "NaN"...)
	case math.IsInf(v, 0):
		return append(out, fmt.Sprintf("%+f", v)...) // with its sign
	}
	return strconv.AppendFloat(out, v, 'g', -1, 64)
}
