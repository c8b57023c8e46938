package writer

import (
	"net/http"
	"time"
)

// maxStall is how long a client may take to read the next bytes of an answer, which holds memory meanwhile.
const maxStall = time.Minute

// Deadline cuts the connection of a client that does not read its answer.
type Deadline struct {
	http.ResponseWriter
	control *http.ResponseController
}

// NewDeadline writes to w until End.
func NewDeadline(w http.ResponseWriter) *Deadline {
	return &Deadline{w, http.NewResponseController(w)}
}

func (d *Deadline) Write(b []byte) (int, error) {
	_ = d.control.SetWriteDeadline(time.Now().Add(maxStall)) // a test's recorder has none to set
	return d.ResponseWriter.Write(b)
}

// End removes the deadline: the connection's next request has its own.
func (d *Deadline) End() { _ = d.control.SetWriteDeadline(time.Time{}) }

// Unwrap is for http.ResponseController.
func (d *Deadline) Unwrap() http.ResponseWriter { return d.ResponseWriter }
