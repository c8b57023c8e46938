package dashboard

import "net/http"

// stream sends an answer in parts, so that large ones are never whole in memory.
type stream struct {
	w   http.ResponseWriter
	buf []byte // not sent yet; appended to by its user
}

const streamBytes = 64 << 10

func newStream(w http.ResponseWriter, contentType string) *stream {
	w.Header().Set("Content-Type", contentType)
	return &stream{w: w, buf: make([]byte, 0, streamBytes+streamBytes/4)}
}

// flushFull sends what is in buf if that is much.
func (s *stream) flushFull() {
	if len(s.buf) >= streamBytes {
		s.flush()
	}
}

// flush sends what is in buf. The client going away is no error of ours.
func (s *stream) flush() {
	_, _ = s.w.Write(s.buf)
	s.buf = s.buf[:0]
}
