package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// WriteOpenMetrics writes all samples of the hours in the OpenMetrics text format, as `promtool tsdb create-blocks-from
// openmetrics` takes it: each with its time, an hour and node after the other, "# EOF" at the end. Samples of one
// series are in order of time.
func WriteOpenMetrics(ctx context.Context, w io.Writer, store chunks.Store, hours []Hour,
	damaged func(key string, err error), done func(Hour)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &openMetrics{ctx: ctx, stop: stop, w: bufio.NewWriterSize(w, 256<<10), last: make(map[string]int64),
		first: make(map[string]int), texts: newAllowance(maxTexts)}
	for _, h := range hours {
		if err := h.Visit(ctx, store, out, damaged); err != nil {
			return fmt.Errorf("read metrics of %s at %s: %w", h.Node, h.Start.Format("2006-01-02 15:04"), err)
		}
		done(h)
	}
	if _, err := out.w.WriteString("# EOF\n"); err != nil {
		return err
	}
	return out.w.Flush()
}

// maxTexts limits the memory of the series of a table and of the targets of all tables.
const maxTexts = 256 << 20

// errTooManyTexts says that they do not fit.
var errTooManyTexts = fmt.Errorf("the series of an hour, or the targets of the session, take more than %d bytes",
	maxTexts)

// openMetrics writes what it is told, until ctx ends; stop ends it with the reason.
type openMetrics struct {
	ctx     context.Context
	stop    context.CancelCauseFunc
	w       *bufio.Writer
	targets [][]samples.Label
	spelled []string       // the targets
	series  []textSeries   // of the table
	first   map[string]int // in these, by their text
	texts   *allowance
	taken   int64 // of texts, for series
	present samples.Present
	last    map[string]int64 // of each target, by its labels: the time of the last read that was written
	buf     []byte
}

// textSeries is a series of a table. Several of them may be the same for Prometheus, see exposedSeries.
type textSeries struct {
	text   string // name and labels
	target int
	first  int // of those that are the same
	// written, of a first one, is the one of them that is written: that which got its value last. Below 0: it is gone.
	written int
}

// Start implements samples.Visitor: another table begins.
func (o *openMetrics) Start(targets [][]samples.Label) {
	o.texts.giveBack(o.taken)
	clear(o.series)
	clear(o.first)
	o.targets, o.series, o.taken = targets, o.series[:0], 0
	o.spelled = o.spelled[:0]
	for _, t := range targets {
		o.spelled = append(o.spelled, fmt.Sprint(t))
	}
	o.present.Start(len(targets))
}

func (o *openMetrics) Wants(string) bool { return o.ctx.Err() == nil }

func (o *openMetrics) Metric(samples.Metric) {}

// Series implements samples.Visitor: it spells a series once, as all of its lines begin with it.
func (o *openMetrics) Series(target int, name string, labels []samples.Label) int {
	var s strings.Builder
	s.WriteString(name)
	separator := byte('{')
	for _, l := range merge(o.targets[target], labels) {
		s.WriteByte(separator)
		s.WriteString(l.Name)
		s.WriteString(`="`)
		_, _ = escapeLabel.WriteString(&s, l.Value)
		s.WriteByte('"')
		separator = ','
	}
	if separator == ',' {
		s.WriteByte('}')
	}
	size := int64(s.Cap() + tableSeriesBytes)
	if o.texts.take(size) != nil {
		o.stop(errTooManyTexts)
		return -1
	}
	o.taken += size
	number := len(o.series)
	first, known := o.first[s.String()]
	if !known {
		first = number
		o.first[s.String()] = number
	}
	if o.series = append(o.series, textSeries{s.String(), target, first, -1}); o.series[first].target != target {
		return -1 // as in a builder, those of the first target count
	}
	o.present.Add(target, number)
	return number
}

func (o *openMetrics) firstOf(series int) *textSeries { return &o.series[o.series[series].first] }

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Read implements samples.Visitor: it writes a line for each series that the target exposed at that time.
func (o *openMetrics) Read(r *samples.Read) {
	present := o.present.Read(r)
	for _, n := range r.Series {
		o.firstOf(n).written = n
	}
	for _, n := range r.Ended {
		if f := o.firstOf(n); f.written == n {
			f.written = -1
		}
	}
	target := o.spelled[r.Target]
	last, known := o.last[target]
	if known && r.Time <= last {
		return // lines that are stored twice, or a clock that was set back
	}
	if !known && o.texts.take(int64(len(target))+targetBytes) != nil {
		o.stop(errTooManyTexts)
		return
	}
	o.last[target] = r.Time
	written := 0
	for n, value := range present {
		f := o.firstOf(n)
		if f.written < 0 {
			f.written = n
		}
		if f.written != n {
			continue
		}
		if written++; written%4096 == 0 && o.ctx.Err() != nil {
			return
		}
		o.buf = append(append(o.buf[:0], o.series[n].text...), ' ')
		switch {
		case math.IsNaN(value):
			o.buf = append(o.buf, "NaN"...)
		case math.IsInf(value, 1):
			o.buf = append(o.buf, "+Inf"...)
		case math.IsInf(value, -1):
			o.buf = append(o.buf, "-Inf"...)
		default:
			o.buf = strconv.AppendFloat(o.buf, value, 'g', -1, 64)
		}
		o.buf = strconv.AppendFloat(append(o.buf, ' '), float64(r.Time)/1000, 'f', 3, 64)
		if _, err := o.w.Write(append(o.buf, '\n')); err != nil {
			o.stop(err)
			return
		}
	}
}

// merge returns a target's labels with those of a series of it. Where both have a name the series' is renamed
// exported_{name}, as Prometheus does unless honor_labels is set. Labels without a value are none. Series that are the
// same have the same labels, in order of their names.
func merge(target, labels []samples.Label) []samples.Label {
	merged := make([]samples.Label, 0, len(target)+len(labels))
	inTarget := make(map[string]bool, len(target))
	for _, l := range target {
		inTarget[l.Name] = true
		merged = append(merged, l)
	}
	for _, l := range labels {
		if l.Value == "" {
			continue
		}
		if inTarget[l.Name] {
			l.Name = "exported_" + l.Name
		}
		merged = append(merged, l)
	}
	slices.SortStableFunc(merged, func(a, b samples.Label) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(merged, func(a, b samples.Label) bool { return a.Name == b.Name })
}
