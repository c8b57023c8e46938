// Package writer has the response writers through which all answers go (deadlines, ETags, a record for the log and the
// metrics), and writes JSON.
package writer

import (
	"cmp"
	"context"
	"io"
	"net/http"
)

// Recorder records what was answered to a request, for the log and the metrics.
type Recorder struct {
	http.ResponseWriter
	Route  string
	Status int // 0: no answer yet
	Bytes  int64
	Body   io.ReadCloser // the request's body without maxBody: running clusters take more
}

type recorderKey struct{}

// Record adds to a request's context the recorder of its answer.
func Record(ctx context.Context, w http.ResponseWriter, body io.ReadCloser) (context.Context, *Recorder) {
	r := &Recorder{ResponseWriter: w, Route: "none", Body: body}
	return context.WithValue(ctx, recorderKey{}, r), r
}

// RecorderOf returns the recorder of a request whose context Record made.
func RecorderOf(r *http.Request) *Recorder { return r.Context().Value(recorderKey{}).(*Recorder) }

func (w *Recorder) Code() int {
	if w.Status == 0 {
		return http.StatusOK
	}
	return w.Status
}

func (w *Recorder) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Recorder) Write(p []byte) (int, error) {
	w.Status = cmp.Or(w.Status, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.Bytes += int64(n)
	return n, err
}

// Flush lets answers that follow a log reach the client line by line.
func (w *Recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
