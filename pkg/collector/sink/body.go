package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/semaphore"
)

// bodies reads the bodies of requests into memory, within a limit for all together.
type bodies struct {
	max     int64 // bytes of one body, and of all
	memory  *semaphore.Weighted
	taken   atomic.Int64 // bytes of memory
	waiting atomic.Int64 // requests
	spares  *spares
	gzips   sync.Pool
}

// body is the body of a request. Its memory counts against the limit until it is released.
type body struct {
	bytes []byte
	taken int64
}

const (
	// firstBytes is the initial memory of a body, whatever length it announces. It grows as bytes arrive, each time by
	// growth: nobody makes the collector take much more than was sent.
	firstBytes = 64 << 10
	growth     = 4
	// At most maxWaiting requests wait for memory, each for memoryWait: Ray gives up after 3 s.
	maxWaiting = 64
	memoryWait = time.Second
)

func newBodies(maxBytes int64) *bodies {
	return &bodies{max: maxBytes, memory: semaphore.NewWeighted(maxBytes), spares: newSpares()}
}

var (
	errTooLarge = errors.New("body is too large")
	errBusy     = errors.New("no memory is free")
)

// readBody reads a request's body completely and decompresses it if needed. It returns the body, which the caller
// releases, or why it is refused: it is too large or too slow, cannot be read, or there is no memory for it now.
func (m *bodies) readBody(w http.ResponseWriter, r *http.Request) (*body, *refusal) {
	if r.ContentLength > m.max {
		return nil, m.tooLarge()
	}
	compressed := r.Header.Get("Content-Encoding") == "gzip"
	size := r.ContentLength
	if compressed {
		size = -1 // the length of the decompressed body is not known
	}
	b := m.newBody(r.Context(), size)
	if b == nil {
		return nil, busyRefusal()
	}
	now := time.Now()
	p := &pace{body: r.Body, control: http.NewResponseController(w),
		due: now.Add(slowGrace), last: now.Add(readTimeout)}
	p.setDeadline()
	var err error
	if compressed {
		err = m.readGzip(b, p)
	} else {
		err = m.fillBody(b, p, size)
	}
	if err == nil {
		_ = p.control.SetReadDeadline(time.Time{}) // the connection is used again, for other requests
		return b, nil
	}
	m.releaseBody(b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, m.tooLarge()
	case errors.Is(err, errBusy):
		return nil, busyRefusal()
	case errors.Is(err, errSlow): // the rest of the body is not read, so the connection cannot be used again
		w.Header().Set("Connection", "close")
		return nil, &refusal{status: http.StatusRequestTimeout, reason: "slow",
			text: fmt.Sprintf("the body came with less than %d bytes a second, or not within %v", slowRate,
				readTimeout)}
	}
	return nil, &refusal{status: http.StatusBadRequest, reason: "unreadable",
		text: fmt.Sprintf("the body can't be read to its end: %v", err)}
}

func (m *bodies) tooLarge() *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, reason: "too_large",
		text: fmt.Sprintf("the body has more than %d bytes; send smaller batches "+
			"(RAY_DASHBOARD_AGGREGATOR_AGENT_MAX_EVENT_SEND_BATCH_SIZE)", m.max)}
}

func busyRefusal() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, reason: "busy", retryAfter: retrySoon,
		text: "too many events are being taken at once; send them again"}
}

// reserveMemory reserves n bytes of the bodies' memory. It is false if they do not become free within memoryWait, or if
// too many others wait for memory.
func (m *bodies) reserveMemory(ctx context.Context, n int64) bool {
	if m.memory.TryAcquire(n) {
		m.taken.Add(n)
		return true
	}
	waiting := m.waiting.Add(1)
	defer m.waiting.Add(-1)
	if waiting > maxWaiting {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	if m.memory.Acquire(ctx, n) != nil {
		return false
	}
	m.taken.Add(n)
	return true
}

// newBody returns an empty body with its initial memory; nil if none is free within memoryWait. size is the length it
// announces, -1 if none.
func (m *bodies) newBody(ctx context.Context, size int64) *body {
	if size < 0 {
		size = m.max
	}
	first := min(firstBytes, size)
	if !m.reserveMemory(ctx, first) {
		return nil
	}
	return &body{bytes: m.spares.getBuffer(first), taken: first}
}

// growBody lets a body have growth times as many bytes as it has now, up to limit, and returns how many. The error is
// errBusy if there is no memory for them: it does not wait, because requests that hold some could deadlock.
func (m *bodies) growBody(b *body, limit int64) (size int64, err error) {
	size = min(growth*int64(len(b.bytes)), limit)
	more := min(size, m.max) - b.taken
	if !m.memory.TryAcquire(more) {
		return 0, errBusy
	}
	m.taken.Add(more)
	b.taken += more
	if int64(cap(b.bytes)) < size {
		b.bytes = append(newBuffer(size), b.bytes...)
	}
	return size, nil
}

// fillBody reads the next size bytes of r into the body, or all of r if size is -1. The error is errTooLarge if there
// are more than m.max bytes.
func (m *bodies) fillBody(b *body, r io.Reader, size int64) error {
	limit := size
	if size < 0 {
		limit = m.max + 1 // one byte more than allowed shows that there is more
	}
	for space := b.taken; ; { // how many bytes the body may have without growing
		have := int64(len(b.bytes))
		switch {
		case have == size:
			return nil
		case have > m.max:
			return errTooLarge
		case have == space:
			var err error
			if space, err = m.growBody(b, limit); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[have:space])
		b.bytes = b.bytes[:have+int64(n)]
		switch {
		case errors.Is(err, io.EOF) && (size < 0 || have+int64(n) == size):
			if have+int64(n) > m.max {
				return errTooLarge
			}
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// readGzip reads a body that is compressed with gzip; m.max bounds what it is decompressed to.
func (m *bodies) readGzip(b *body, r io.Reader) error {
	z, ok := m.gzips.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	defer m.gzips.Put(z)
	if err := z.Reset(r); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	const toItsEnd = -1
	if err := m.fillBody(b, z, toItsEnd); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	return nil
}

func (m *bodies) releaseBody(b *body) {
	m.spares.putBuffer(b.bytes)
	m.memory.Release(b.taken)
	m.taken.Add(-b.taken)
}

// spares keeps what bodies were read into for the next ones: few, because a node's events come one body at a time, and
// none once no body has come for keepFor. A sync.Pool kept one for each processor, and as many again until the next
// garbage collection. Only what a body has of its buffer counts as its memory.
type spares struct {
	ready chan []byte
	idle  *time.Timer
}

const (
	maxSpares = 2
	// maxSpare is the size of the largest buffer that is kept. Sizes up to it are powers of two, so that a body which
	// is a little longer than the last one finds room.
	maxSpare = 4 << 20
	keepFor  = time.Minute
)

// newSpares makes spares, which are dropped when none was used for keepFor.
func newSpares() *spares {
	s := &spares{ready: make(chan []byte, maxSpares)}
	s.idle = time.AfterFunc(keepFor, func() {
		for s.takeAny() != nil {
		}
	})
	return s
}

// takeAny returns an empty buffer that was kept; nil if there is none.
func (s *spares) takeAny() []byte {
	select {
	case spare := <-s.ready:
		return spare
	default:
		return nil
	}
}

// getBuffer returns an empty buffer that holds n bytes.
func (s *spares) getBuffer(n int64) []byte {
	if spare := s.takeAny(); int64(cap(spare)) >= n {
		return spare
	}
	return newBuffer(n)
}

// putBuffer keeps a buffer that is no longer read, unless it is too large or there are enough. An empty body has none.
func (s *spares) putBuffer(buffer []byte) {
	if cap(buffer) == 0 || cap(buffer) > maxSpare {
		return
	}
	select {
	case s.ready <- buffer[:0]:
	default:
	}
	s.idle.Reset(keepFor)
}

func newBuffer(n int64) []byte {
	if n <= maxSpare {
		n = 1 << bits.Len64(uint64(n-1))
	}
	return make([]byte, 0, n)
}

const (
	// A client whose body falls behind slowRate bytes a second by more than slowGrace is cut off, because it holds
	// memory. So is a client whose body takes longer than readTimeout.
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

// Read implements io.Reader, and moves the deadline of the connection. The error is errSlow if the client has sent too
// few bytes for the time that it took.
func (p *pace) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	now := time.Now()
	if errors.Is(err, io.EOF) {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || now.After(p.due) {
		return n, errSlow
	}
	// Bytes earn time, but not more than slowGrace from now: a client that sent much at once must not hold that memory
	// for long. Nobody gets more than readTimeout in all.
	p.due = p.due.Add(time.Duration(n) * time.Second / slowRate)
	for _, latest := range []time.Time{now.Add(slowGrace), p.last} {
		if p.due.After(latest) {
			p.due = latest
		}
	}
	p.setDeadline()
	return n, err
}

// setDeadline ends a read at the time due. If a writer has no deadlines, the server's own applies.
func (p *pace) setDeadline() { _ = p.control.SetReadDeadline(p.due) }
