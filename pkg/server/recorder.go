package server

import (
	"io"
	"net/http"
)

// recorder records what was answered to a request, for the log and the metrics.
type recorder struct {
	http.ResponseWriter
	route  string
	status int // 0: no answer yet
	bytes  int64
	body   io.ReadCloser // the request's body without maxBody: running clusters take more
}

type recorderKey struct{}

// recorderOf gives the recorder of a request that the middleware passed on.
func recorderOf(r *http.Request) *recorder { return r.Context().Value(recorderKey{}).(*recorder) }

func (w *recorder) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Flush lets answers that follow a log reach the client line by line.
func (w *recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
