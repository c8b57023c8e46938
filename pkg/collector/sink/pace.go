package sink

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// A client whose body falls behind slowRate bytes a second by more than slowGrace is cut off, because it holds memory. So is a client
	// whose body takes longer than readTimeout.
	slowRate    = 64 << 10
	slowGrace   = 5 * time.Second
	readTimeout = 30 * time.Second
)

var errSlow = errors.New("the body arrives too slowly")

// pace reads a body, and cuts it off if it arrives too slowly.
type pace struct {
	body    io.Reader
	control *http.ResponseController
	due     time.Time // when the next bytes must have arrived
	last    time.Time // when all bytes must have arrived
}

func newPace(w http.ResponseWriter, body io.Reader) *pace {
	now := time.Now()
	p := &pace{body: body, control: http.NewResponseController(w), due: now.Add(slowGrace), last: now.Add(readTimeout)}
	p.limit()
	return p
}

func (p *pace) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	now := time.Now()
	if errors.Is(err, io.EOF) {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || now.After(p.due) {
		return n, errSlow
	}
	// Bytes earn time, but not more than slowGrace from now: a client that sent much at once must not hold that memory for long.
	p.due = p.due.Add(time.Duration(n) * time.Second / slowRate)
	for _, latest := range []time.Time{now.Add(slowGrace), p.last} {
		if p.due.After(latest) {
			p.due = latest
		}
	}
	p.limit()
	return n, err
}

// limit ends a read at the time due. If a writer has no deadlines, the server's own applies.
func (p *pace) limit() { _ = p.control.SetReadDeadline(p.due) }

// end removes the limit, because the connection is reused for other requests.
func (p *pace) end() { _ = p.control.SetReadDeadline(time.Time{}) }
