package reply

import (
	"net/http"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Stream sends an answer in parts, so that a large answer is never completely in memory. Until the first part is sent the answer can still
// be replaced by another.
type Stream struct {
	w           http.ResponseWriter
	status      int
	contentType string // the content's type
	Begun       bool   // something was sent
	Gone        bool   // the client has left
	Buf         []byte // not sent yet; appended to by its user
}

const streamBytes = 64 << 10

// NewStream makes a stream of an answer with this status and Content-Type.
func NewStream(w http.ResponseWriter, status int, contentType string) *Stream {
	return &Stream{w: w, status: status, contentType: contentType, Buf: make([]byte, 0, 4<<10)}
}

// FlushFull sends Buf if it is large enough. It returns false when the client has gone: then the caller can stop.
func (s *Stream) FlushFull() bool {
	if len(s.Buf) >= streamBytes {
		s.flush()
	}
	return !s.Gone
}

func (s *Stream) flush() {
	if !s.Begun {
		s.Begun = true
		s.w.Header().Set("Content-Type", s.contentType)
		s.w.WriteHeader(s.status)
	}
	if !s.Gone {
		_, err := s.w.Write(s.Buf)
		s.Gone = err != nil // this is not an error
	}
	s.Buf = s.Buf[:0]
}

// Close sends the rest.
func (s *Stream) Close() {
	if !s.Begun {
		s.w.Header().Set("Content-Length", strconv.Itoa(len(s.Buf)))
	}
	s.flush()
}

// Cut ends an answer that failed. If the answer has begun, only a broken connection can show this; otherwise err becomes the answer.
func (s *Stream) Cut(err error) error {
	if s.Begun && !s.Gone {
		panic(http.ErrAbortHandler)
	}
	s.w.Header().Del("Content-Disposition")
	return err
}

// Value adds a value, and sends Buf when it is full.
func (s *Stream) Value(v any) {
	switch v := v.(type) {
	case *pyjson.Object:
		if v == nil {
			break
		}
		s.Buf = append(s.Buf, '{')
		first := true
		for key, member := range v.All() {
			s.Separate(&first)
			s.Buf = append(pyjson.AppendString(s.Buf, key), ": "...)
			if s.Value(member); s.Gone {
				return
			}
		}
		s.Buf = append(s.Buf, '}')
		return
	case []any:
		s.List(len(v), func(i int) { s.Value(v[i]) })
		return
	case []*pyjson.Object:
		s.List(len(v), func(i int) { s.Value(v[i]) })
		return
	case Streamed:
		v(s)
		return
	}
	s.Buf = pyjson.Append(s.Buf, v)
	s.FlushFull()
}

// Streamed is a value that writes itself.
type Streamed func(*Stream)

// List writes a list of n elements, each by write, until the client goes.
func (s *Stream) List(n int, write func(i int)) {
	s.Buf = append(s.Buf, '[')
	for i := range n {
		if i > 0 {
			s.Buf = append(s.Buf, ", "...)
		}
		if write(i); s.Gone {
			return
		}
	}
	s.Buf = append(s.Buf, ']')
}

// Separate puts a separator before all but the first.
func (s *Stream) Separate(first *bool) {
	if !*first {
		s.Buf = append(s.Buf, ", "...)
	}
	*first = false
}
