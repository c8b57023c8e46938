package writer

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// reader is a client that takes so many bytes a second.
type reader struct {
	*httptest.ResponseRecorder
	rate     int
	deadline time.Time
}

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

func (r *reader) Write(b []byte) (int, error) {
	for n := range b {
		if !r.deadline.IsZero() && !time.Now().Before(r.deadline) {
			return n, os.ErrDeadlineExceeded
		}
		time.Sleep(time.Second / time.Duration(r.rate))
	}
	return len(b), nil
}

// TestDeadline: a client that does not read at least slowly is cut off, however it spreads what it reads, and none for
// an answer that takes long to make.
func TestDeadline(t *testing.T) {
	const part = 4 << 10
	for name, test := range map[string]struct {
		rate  int // the client's
		pause time.Duration
		whole bool
	}{
		"a slow link":        {2 * leastRate, 0, true},
		"a slow answer":      {leastRate / 2, time.Minute, true},
		"some bytes a while": {leastRate / 16, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// left by the request before
				client := &reader{ResponseRecorder: httptest.NewRecorder(), rate: test.rate, deadline: time.Now()}
				out := NewDeadline(client)
				var err error
				sent := 0
				for sent < 100 && err == nil {
					if test.pause > 0 && sent == 3 {
						break // what it takes is within maxStall
					}
					time.Sleep(test.pause)
					_, err = out.Write(make([]byte, part))
					sent++
				}
				out.End()
				if whole := err == nil; whole != test.whole || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("after %d parts: %v", sent, err)
				}
				says.Equal(t, time.Until(client.deadline), maxRest, "left for what is in buffers")
			})
		})
	}
}

var _ http.Flusher = (*Deadline)(nil)
