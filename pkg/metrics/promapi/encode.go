package promapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// encoder writes an answer as Prometheus does. Errors of the connection come back from the last Flush.
type encoder struct {
	w   *bufio.Writer
	buf []byte
}

// maxAnnotations bounds the warnings of an answer, and its infos, as Prometheus does.
const maxAnnotations = 10

// writeResult writes an answer as Prometheus does, piece by piece: it may be larger than memory for answers.
func writeResult(ctx context.Context, w http.ResponseWriter, r *result) {
	w.Header().Set("Content-Type", "application/json")
	e := &encoder{w: bufio.NewWriterSize(&endingWriter{ctx, w}, 64<<10)}
	e.writeText(`{"status":"success","data":`)
	switch data := r.data.(type) {
	case nil: // the answer to a query
		e.writeValue(r.value)
	case []labels.Labels: // the lists may be long
		e.writeList(len(data), func(i int) { e.writeJSON(data[i]) })
	case []string:
		e.writeList(len(data), func(i int) { e.writeJSON(data[i]) })
	default:
		e.writeJSON(data)
	}
	warnings, infos := r.warnings.AsStrings(r.query, maxAnnotations, maxAnnotations)
	if len(warnings) > 0 {
		e.writeText(`,"warnings":`)
		e.writeJSON(warnings)
	}
	if len(infos) > 0 {
		e.writeText(`,"infos":`)
		e.writeJSON(infos)
	}
	e.writeText("}\n")
	_ = e.w.Flush() // an error means that the client has left
}

// endingWriter writes until its context ends.
type endingWriter struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (w *endingWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.w.Write(p)
}

func (e *encoder) writeText(s string) { _, _ = e.w.WriteString(s) }

func (e *encoder) writeJSON(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte("null") // cannot happen: strings, maps and lists always marshal
	}
	_, _ = e.w.Write(data)
}

// writeValue writes the result of a query with its type: a matrix, a vector, a scalar or a string, in Prometheus's
// forms.
func (e *encoder) writeValue(v parser.Value) {
	e.writeText(`{"resultType":"` + string(v.Type()) + `","result":`)
	switch v := v.(type) {
	case promql.Matrix:
		e.writeList(len(v), func(i int) {
			e.writeMetric(v[i].Metric)
			e.writeText(`,"values":`)
			e.writeList(len(v[i].Floats), func(j int) { e.writePoint(v[i].Floats[j].T, v[i].Floats[j].F) })
			e.writeText("}")
		})
	case promql.Vector:
		e.writeList(len(v), func(i int) {
			e.writeMetric(v[i].Metric)
			e.writeText(`,"value":`)
			e.writePoint(v[i].T, v[i].F)
			e.writeText("}")
		})
	case promql.Scalar:
		e.writePoint(v.T, v.V)
	case promql.String:
		e.buf = append(appendTime(append(e.buf[:0], '['), v.T), ',')
		_, _ = e.w.Write(e.buf)
		e.writeJSON(v.V)
		e.writeText("]")
	}
	e.writeText("}")
}

// writeList writes an array of n elements, each by item.
func (e *encoder) writeList(n int, item func(int)) {
	e.writeText("[")
	for i := range n {
		if i > 0 {
			e.writeText(",")
		}
		item(i)
	}
	e.writeText("]")
}

func (e *encoder) writeMetric(l labels.Labels) {
	e.writeText(`{"metric":`)
	e.writeJSON(l)
}

// writePoint writes the value at a time as Prometheus does.
func (e *encoder) writePoint(t int64, v float64) {
	e.buf = append(appendTime(append(e.buf[:0], '['), t), `,"`...)
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	e.buf = append(strconv.AppendFloat(e.buf, v, format, -1, 64), `"]`...)
	_, _ = e.w.Write(e.buf)
}

// appendTime appends Unix milliseconds as seconds.
func appendTime(to []byte, t int64) []byte {
	if t%1000 == 0 {
		return strconv.AppendInt(to, t/1000, 10)
	}
	return strconv.AppendFloat(to, float64(t)/1000, 'f', 3, 64)
}
