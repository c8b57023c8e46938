package writer

import (
	"net/http"
	"slices"
	"time"
)

const (
	// maxStall is how long a client may take to read the next bytes of an answer, whose memory cannot be freed before.
	maxStall = time.Minute
	// leastRate is how many bytes a second a client must read on average; it may fall behind by maxStall. Otherwise a
	// client that reads some bytes a minute would keep the memory in use for days.
	leastRate = 16 << 10
	// maxRest is how long the end of an answer, up to 4 MiB, may stay in the buffers of the server and the kernel. The
	// answer has no other memory then.
	maxRest = 5 * time.Minute
)

// Deadline is a response writer that cuts the connection of a client that does not read its answer, or reads it too
// slowly. The time that it takes to make the answer does not count.
type Deadline struct {
	http.ResponseWriter
	control *http.ResponseController
	earned  time.Duration // the time that the client may have taken for what it has read
	waited  time.Duration // the time that it has taken
}

// NewDeadline returns a writer of w. Its End has to be called when the answer is complete.
func NewDeadline(w http.ResponseWriter) *Deadline {
	d := &Deadline{ResponseWriter: w, control: http.NewResponseController(w)}
	d.set(time.Time{}) // the connection may still have the deadline of its last request
	return d
}

// set sets the deadline of the connection's writes. It has no effect on writers without deadlines.
func (d *Deadline) set(at time.Time) { _ = d.control.SetWriteDeadline(at) }

// Write writes b in parts, each with a deadline of its own.
func (d *Deadline) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, leastRate*int(maxStall/time.Second)) {
		k, err := d.write(part)
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

// write writes a part, which must be small enough for a client at leastRate to read within maxStall.
func (d *Deadline) write(part []byte) (int, error) {
	defer d.startWaiting()()
	n, err := d.ResponseWriter.Write(part)
	d.earned += time.Duration(n) * time.Second / leastRate
	return n, err
}

// FlushError is for http.ResponseController.
func (d *Deadline) FlushError() error {
	defer d.startWaiting()()
	return d.control.Flush()
}

// Flush implements http.Flusher.
func (d *Deadline) Flush() { _ = d.FlushError() }

// startWaiting sets the deadline for the next write. The time until stop is called counts as waiting for the client.
func (d *Deadline) startWaiting() (stop func()) {
	began := time.Now()
	d.set(began.Add(min(maxStall, maxStall+d.earned-d.waited)))
	return func() { d.waited += time.Since(began) }
}

// End gives the client maxRest to read what is still in buffers.
func (d *Deadline) End() { d.set(time.Now().Add(maxRest)) }

// Unwrap is for http.ResponseController.
func (d *Deadline) Unwrap() http.ResponseWriter { return d.ResponseWriter }
