package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// The Content-Types of answers.
const (
	jsonType = "application/json; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

// writeBytes sends an answer that is complete in memory. Like all functions here that send an answer it returns nil, so
// that a handler can end with it: it is not an error if the client has left.
func writeBytes(w http.ResponseWriter, status int, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// writeJSON sends a value while it is encoded. The value may contain streamed parts.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	s := newStream(w, status, jsonType)
	s.value(v)
	s.close()
	return nil
}

// writeText sends plain text.
func writeText(w http.ResponseWriter, status int, text string) error {
	return writeBytes(w, status, textType, []byte(text))
}

// writeEnvelope sends data in the envelope of Ray's dashboard (rest_response in ray/dashboard/routes.py).
func writeEnvelope(w http.ResponseWriter, status int, msg string, data *pyjson.Object) error {
	if data == nil {
		data = pyjson.Obj()
	}
	return writeJSON(w, status, pyjson.Obj("result", status == http.StatusOK, "msg", msg, "data", data))
}

// writeOK sends keys and values, in turn, as the data of Ray's envelope.
func writeOK(w http.ResponseWriter, msg string, keysAndValues ...any) error {
	return writeEnvelope(w, http.StatusOK, msg, pyjson.Obj(keysAndValues...))
}

// writeOwn sends what a Ray dashboard does not have as the data of Ray's envelope.
func writeOwn(w http.ResponseWriter, data any) error {
	body, err := json.Marshal(struct {
		Result bool   `json:"result"`
		Msg    string `json:"msg"`
		Data   any    `json:"data"`
	}{true, "", data})
	if err != nil {
		return err
	}
	return writeBytes(w, http.StatusOK, jsonType, body)
}

// successValue is Ray's envelope of an answer, as a value.
func successValue(msg string, data *pyjson.Object) *pyjson.Object {
	return pyjson.Obj("result", true, "msg", msg, "data", data)
}

// rayError is a request that Ray refuses: its status and the text it puts into its answer.
type rayError struct {
	status int
	text   string
}

func (e *rayError) Error() string { return e.text }

// badRequest is a rayError for parameters that Ray refuses.
func badRequest(format string, args ...any) error {
	return &rayError{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

// notFound is a rayError for a thing that does not exist.
func notFound(text string) error { return &rayError{status: http.StatusNotFound, text: text} }

// Answer is an answer that is sent while it is made. Until the first part is sent it can still be replaced by another.
type Answer struct {
	http.ResponseWriter
	begun bool // something was sent
}

func (a *Answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Cut ends an answer that failed. If the answer has begun, only a broken connection can show this; otherwise err
// becomes the answer.
func (a *Answer) Cut(err error) error {
	if a.begun {
		panic(http.ErrAbortHandler)
	}
	a.Header().Del("Content-Disposition")
	return err
}

// cutAnswer ends an answer that failed, see Answer.Cut.
func cutAnswer(a *Answer, r *Request, err error) error {
	if a.begun && !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
		r.Log.WithError(err).WithField("url", r.URL.String()).Error("cut an answer: read stored session")
	}
	return a.Cut(err)
}

// stream sends an answer in parts, so that a large answer is never completely in memory.
type stream struct {
	Answer
	status      int
	contentType string
	gone        bool   // the client has left, or the answer failed: nothing more is sent
	buf         []byte // what is not sent yet; users append to it and call flushFull
}

// streamBytes is from which size on buf is sent, in bytes.
const streamBytes = 64 << 10

// newStream makes a stream of an answer with this status and Content-Type.
func newStream(w http.ResponseWriter, status int, contentType string) *stream {
	return &stream{Answer: Answer{ResponseWriter: w}, status: status, contentType: contentType,
		buf: make([]byte, 0, 4<<10)}
}

// flushFull sends buf if it is large enough.
func (s *stream) flushFull() {
	if len(s.buf) >= streamBytes {
		s.flush()
	}
}

// flush sends what is written so far. Once the client has left, it is dropped.
func (s *stream) flush() {
	if !s.gone && !s.begun {
		s.Header().Set("Content-Type", s.contentType)
		s.WriteHeader(s.status)
	}
	if !s.gone {
		_, err := s.Write(s.buf)
		s.gone = err != nil // this is not an error
	}
	s.buf = s.buf[:0]
}

// close sends the rest.
func (s *stream) close() {
	if !s.gone && !s.begun {
		s.Header().Set("Content-Length", strconv.Itoa(len(s.buf)))
	}
	s.flush()
}

// value appends a value as JSON to buf, spaced as Python does it, and sends buf when it is full. Objects, lists and
// what is streamed are written piece by piece.
func (s *stream) value(v any) {
	switch v := v.(type) {
	case *pyjson.Object:
		if v == nil {
			break // null
		}
		s.object(v.All())
		return
	case []any:
		s.list(len(v), func(i int) { s.value(v[i]) })
		return
	case []*pyjson.Object:
		s.list(len(v), func(i int) { s.value(v[i]) })
		return
	case streamed:
		v(s)
		return
	}
	s.buf = pyjson.Append(s.buf, v)
	s.flushFull()
}

// streamed is a value that writes itself.
type streamed func(*stream)

// object writes an object until the client goes.
func (s *stream) object(members iter.Seq2[string, any]) {
	s.buf = append(s.buf, '{')
	first := true
	for key, member := range members {
		if !first {
			s.buf = append(s.buf, ", "...)
		}
		first = false
		s.buf = append(pyjson.AppendString(s.buf, key), ": "...)
		if s.value(member); s.gone {
			return
		}
	}
	s.buf = append(s.buf, '}')
	s.flushFull() // also of objects that have nothing in them
}

// list writes a list of n elements, each by write, until the client goes.
func (s *stream) list(n int, write func(i int)) {
	s.buf = append(s.buf, '[')
	for i := range n {
		if i > 0 {
			s.buf = append(s.buf, ", "...)
		}
		if write(i); s.gone {
			return
		}
	}
	s.buf = append(s.buf, ']')
}

// changed is an object as it is written with what change makes of its members: a copy of a large one would take as much
// memory again, for each request.
func changed(o *pyjson.Object, change func(name string, value any) any) streamed {
	return func(s *stream) {
		s.object(func(yield func(string, any) bool) {
			for name, value := range o.All() {
				if !yield(name, change(name, value)) {
					return
				}
			}
		})
	}
}

// changedList is a list as it is written with what change makes of its elements.
func changedList[T any](list []T, change func(element T) any) streamed {
	return func(s *stream) {
		s.list(len(list), func(i int) { s.value(change(list[i])) })
	}
}

// finite writes JSON for browsers, which do not know the NaN, Infinity and -Infinity that Python writes: they get null
// instead. What is no JSON passes as it is.
type finite struct {
	http.ResponseWriter

	begun, json bool // the header was sent; the answer is JSON
	null        jsonstream.Finite
	out         []byte
}

// Unwrap is for http.ResponseController.
func (f *finite) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader leaves the length out: it may change.
func (f *finite) WriteHeader(status int) {
	f.begun = true
	if f.json = strings.HasPrefix(f.Header().Get("Content-Type"), "application/json"); f.json {
		f.Header().Del("Content-Length")
	}
	f.ResponseWriter.WriteHeader(status)
}

// Write passes on a part of an answer. If it is JSON, f.null holds a minus sign at its end back, until it is known what
// follows.
func (f *finite) Write(p []byte) (int, error) {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	if !f.json {
		return f.ResponseWriter.Write(p)
	}
	f.out = f.null.Append(f.out[:0], p)
	if _, err := f.ResponseWriter.Write(f.out); err != nil {
		return 0, err
	}
	return len(p), nil
}
