// Package writer has the response writers through which all answers go (deadlines, ETags, a record for the log and the
// metrics), and writes JSON.
package writer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Recorder records what was answered to a request, for the log and the metrics.
type Recorder struct {
	http.ResponseWriter
	Route  string
	Status int // 0: no answer yet
	Bytes  int64
	Body   io.ReadCloser // the request's body without the server's own limit: running clusters accept larger ones
}

type recorderKey struct{}

// Record returns a recorder that writes an answer to w, and a context with it for the request, whose body is given.
func Record(ctx context.Context, w http.ResponseWriter, body io.ReadCloser) (context.Context, *Recorder) {
	r := &Recorder{ResponseWriter: w, Route: "none", Body: body}
	return context.WithValue(ctx, recorderKey{}, r), r
}

// RecorderOf returns the recorder of a request whose context Record made.
func RecorderOf(r *http.Request) *Recorder { return r.Context().Value(recorderKey{}).(*Recorder) }

// Code is the answer's status; 200 if nothing was written, which is what the server sends then.
func (w *Recorder) Code() int { return cmp.Or(w.Status, http.StatusOK) }

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

// JSON answers with v as JSON. It panics if v cannot be encoded.
func JSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Data answers with data in the envelope of Ray's State API (ray/dashboard/optional_utils.py, rest_response).
func Data(w http.ResponseWriter, data any) {
	JSON(w, http.StatusOK, map[string]any{"result": true, "msg": "", "data": data})
}

// Tagged is a response writer that adds an ETag to an answer with status 200, so that clients keep no error. A handler
// that does not want the ETag sets Header()["Etag"] to nil.
type Tagged struct {
	http.ResponseWriter
	ETag    string
	written bool
}

func (t *Tagged) WriteHeader(status int) {
	if _, set := t.Header()["Etag"]; !t.written && !set && status == http.StatusOK {
		t.Header().Set("ETag", t.ETag)
	}
	t.written = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *Tagged) Write(p []byte) (int, error) {
	if !t.written {
		t.WriteHeader(http.StatusOK)
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *Tagged) Unwrap() http.ResponseWriter { return t.ResponseWriter }
