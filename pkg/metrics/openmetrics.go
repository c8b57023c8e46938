package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/samples"
)

// WriteOpenMetrics writes all samples of the hours in the OpenMetrics text format, as `promtool tsdb create-blocks-from openmetrics` takes
// it: each with its time, an hour and node after the other, "# EOF" at the end. Samples of one series are in order of time.
func WriteOpenMetrics(ctx context.Context, w io.Writer, store chunks.Store, hours []Hour, damaged func(key string, err error), done func(Hour)) error {
	out := &openMetrics{w: bufio.NewWriterSize(w, 256<<10), last: make(map[string]int64)}
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

// openMetrics writes what it is told. An error of w comes back from its Flush.
type openMetrics struct {
	w       *bufio.Writer
	targets [][]samples.Label
	series  []string // name and labels
	present samples.Present
	last    map[string]int64 // of each target, by its labels: the time of the last read that was written
	buf     []byte
}

func (o *openMetrics) Start(targets [][]samples.Label) {
	o.targets, o.series = targets, o.series[:0]
	o.present.Start(len(targets))
}

func (o *openMetrics) Wants(string) bool { return true }

func (o *openMetrics) Metric(samples.Metric) {}

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
	o.series = append(o.series, s.String())
	o.present.Add(target, len(o.series)-1)
	return len(o.series) - 1
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (o *openMetrics) Read(r *samples.Read) {
	present := o.present.Read(r)
	target := fmt.Sprint(o.targets[r.Target])
	if last, known := o.last[target]; known && r.Time <= last {
		return // lines that are stored twice, or a clock that was set back
	}
	o.last[target] = r.Time
	for n, value := range present {
		o.buf = append(append(o.buf[:0], o.series[n]...), ' ')
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
		_, _ = o.w.Write(append(o.buf, '\n'))
	}
}

// merge returns a target's labels with those of a series of it. Where both have a name the series' is renamed exported_{name}, as
// Prometheus does unless honor_labels is set. Labels without a value are none.
func merge(target, labels []samples.Label) []samples.Label {
	merged := make([]samples.Label, 0, len(target)+len(labels))
	of := make(map[string]bool, len(target))
	for _, l := range target {
		of[l.Name] = true
		merged = append(merged, l)
	}
	for _, l := range labels {
		if l.Value == "" {
			continue
		}
		if of[l.Name] {
			l.Name = "exported_" + l.Name
		}
		merged = append(merged, l)
	}
	return merged
}
