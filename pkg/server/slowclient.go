package server

import (
	"net/http"
	"time"
)

// maxStall is how long a client may take to read the next bytes of an answer, which holds memory meanwhile.
const maxStall = time.Minute

// deadlineWriter cuts the connection of a client that does not read its answer.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	return &deadlineWriter{w, http.NewResponseController(w)}
}

func (d *deadlineWriter) Write(b []byte) (int, error) {
	_ = d.control.SetWriteDeadline(time.Now().Add(maxStall)) // a test's recorder has none to set
	return d.ResponseWriter.Write(b)
}

// end removes the deadline: the connection's next request has its own.
func (d *deadlineWriter) end() { _ = d.control.SetWriteDeadline(time.Time{}) }

// Unwrap is for http.ResponseController.
func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }
