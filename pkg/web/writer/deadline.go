package writer

import (
	"net/http"
	"slices"
	"time"
)

const (
	// maxStall is how long a client may take to read the next bytes of an answer, which holds memory meanwhile.
	maxStall = time.Minute
	// leastRate is how many bytes a second a client must read, on average and beyond maxStall: one that reads some
	// bytes a minute would hold the memory for days.
	leastRate = 16 << 10
	// maxRest is how long the end of an answer may stay in the buffers of the server and the kernel, up to 4 MiB. It
	// holds no other memory then.
	maxRest = 5 * time.Minute
)

// Deadline cuts the connection of a client that does not read its answer, or too slowly. How long it takes to make the
// answer does not count.
type Deadline struct {
	http.ResponseWriter
	control *http.ResponseController
	earned  time.Duration // of the client's time, by what it has read
	waited  time.Duration // for the client
}

// NewDeadline writes to w until End.
func NewDeadline(w http.ResponseWriter) *Deadline {
	d := &Deadline{ResponseWriter: w, control: http.NewResponseController(w)}
	d.set(time.Time{}) // not that of the connection's last request
	return d
}

// set sets when writing ends. A test's recorder has no deadlines.
func (d *Deadline) set(at time.Time) { _ = d.control.SetWriteDeadline(at) }

// Write has the client take parts of b, each in its time.
func (d *Deadline) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, leastRate*int(maxStall/time.Second)) {
		k, err := d.write(part)
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (d *Deadline) write(part []byte) (int, error) {
	defer d.wait()()
	n, err := d.ResponseWriter.Write(part)
	d.earned += time.Duration(n) * time.Second / leastRate
	return n, err
}

// FlushError is for http.ResponseController.
func (d *Deadline) FlushError() error {
	defer d.wait()()
	return d.control.Flush()
}

// Flush implements http.Flusher.
func (d *Deadline) Flush() { _ = d.FlushError() }

// wait begins to wait for the client, until the function that it returns is called.
func (d *Deadline) wait() (done func()) {
	began := time.Now()
	d.set(began.Add(min(maxStall, maxStall+d.earned-d.waited)))
	return func() { d.waited += time.Since(began) }
}

// End leaves the client some time for what is still in buffers.
func (d *Deadline) End() { d.set(time.Now().Add(maxRest)) }

// Unwrap is for http.ResponseController.
func (d *Deadline) Unwrap() http.ResponseWriter { return d.ResponseWriter }
