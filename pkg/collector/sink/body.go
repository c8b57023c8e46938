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
	buffers *buffers
	gzips   sync.Pool
}

// body is the body of a request. Its memory counts against the limit until it is released.
type body struct {
	bytes []byte
	taken int64
}

const (
	// firstBytes is the initial memory of a body, whatever length it announces, unless a buffer of that length is kept.
	// It grows as bytes arrive, each time by growth: nobody makes the collector allocate much more than was sent, and
	// few sizes of buffers are in use.
	firstBytes = 64 << 10
	growth     = 4
	// At most maxWaiting requests wait for memory, each for memoryWait: Ray gives up after 3 s.
	maxWaiting = 64
	memoryWait = time.Second
)

func newBodies(maxBytes int64) *bodies {
	return &bodies{max: maxBytes, memory: semaphore.NewWeighted(maxBytes), buffers: newBuffers()}
}

var (
	errTooLarge = errors.New("body is too large")
	errBusy     = errors.New("no memory is free")
)

// read reads a complete body and decompresses it if needed. The caller releases it.
func (m *bodies) read(w http.ResponseWriter, r *http.Request) (*body, *refusal) {
	if r.ContentLength > m.max {
		return nil, m.tooLarge()
	}
	compressed := r.Header.Get("Content-Encoding") == "gzip"
	size := r.ContentLength
	if compressed {
		size = -1
	}
	b := m.begin(r.Context(), size)
	if b == nil {
		return nil, busy()
	}
	p := newPace(w, r.Body)
	var err error
	if compressed {
		err = m.inflate(b, p)
	} else {
		err = m.fill(b, p, size)
	}
	if err == nil {
		p.end()
		return b, nil
	}
	m.release(b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, m.tooLarge()
	case errors.Is(err, errBusy):
		return nil, busy()
	case errors.Is(err, errSlow):
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

func busy() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, reason: "busy", retryAfter: retrySoon,
		text: "too many events are being taken at once; send them again"}
}

// wait reserves memory; false if none is free within memoryWait.
func (m *bodies) wait(ctx context.Context, n int64) bool {
	if m.memory.TryAcquire(n) {
		m.taken.Add(n)
		return true
	}
	defer m.waiting.Add(-1)
	if m.waiting.Add(1) > maxWaiting {
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

// begin returns an empty body with its initial memory; nil if none is free within memoryWait. size is the length it
// announces, -1 if none.
func (m *bodies) begin(ctx context.Context, size int64) *body {
	// Of the memory about half is left for what arrives: a body may announce much and send nothing.
	if size > firstBytes && m.taken.Load()+size <= m.max/2 && m.memory.TryAcquire(size) {
		if whole := m.buffers.kept(size); whole != nil {
			m.taken.Add(size)
			return &body{bytes: whole, taken: size}
		}
		m.memory.Release(size)
	}
	if size < 0 {
		size = m.max
	}
	first := min(firstBytes, size)
	if !m.wait(ctx, first) {
		return nil
	}
	return &body{bytes: m.buffers.get(first), taken: first}
}

// grow allows a body growth times its memory, up to limit. It does not wait for memory: requests that hold some could
// deadlock.
func (m *bodies) grow(b *body, limit int64) error {
	size := min(growth*max(int64(len(b.bytes)), leastBuffer), limit)
	more := min(size, m.max) - b.taken
	if !m.memory.TryAcquire(more) {
		return errBusy
	}
	m.taken.Add(more)
	b.taken += more
	larger := append(m.buffers.get(size), b.bytes...)
	m.buffers.put(b.bytes)
	b.bytes = larger
	return nil
}

// fill reads size bytes, or to the end if size is -1.
func (m *bodies) fill(b *body, r io.Reader, size int64) error {
	limit := size
	if size < 0 {
		limit = m.max + 1 // one byte more than allowed shows that there is more
	}
	for space := b.taken; ; {
		have := int64(len(b.bytes))
		switch {
		case have == size:
			return nil
		case have > m.max:
			return errTooLarge
		case have == space:
			if err := m.grow(b, limit); err != nil {
				return err
			}
			space = min(growth*max(have, leastBuffer), limit)
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

// inflate reads a body that is compressed with gzip.
func (m *bodies) inflate(b *body, r io.Reader) error {
	z, ok := m.gzips.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	defer m.gzips.Put(z)
	if err := z.Reset(r); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	if err := m.fill(b, z, -1); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	return nil
}

// release releases the body's memory.
func (m *bodies) release(b *body) {
	m.buffers.put(b.bytes)
	m.memory.Release(b.taken)
	m.taken.Add(-b.taken)
}

// buffers keeps what bodies were read into for the next ones: few of each size, because a node's events come one body
// at a time, and none once no body has come for keepFor. A sync.Pool kept one for each processor, and as many again
// until the next garbage collection.
type buffers struct {
	ready [classes]chan []byte // class n has those of leastBuffer << n bytes
	idle  *time.Timer
}

const (
	// leastBuffer is the smallest buffer. Those of up to 4 MiB are kept.
	leastBuffer = 4 << 10
	classes     = 11
	// keptBytes is what is kept of a class, but at least one buffer and at most keptBuffers.
	keptBytes   = 2 << 20
	keptBuffers = 4
	keepFor     = time.Minute
)

func newBuffers() *buffers {
	b := &buffers{}
	for c := range b.ready {
		b.ready[c] = make(chan []byte, max(1, min(keptBuffers, keptBytes/(leastBuffer<<c))))
	}
	b.idle = time.AfterFunc(keepFor, b.drop)
	return b
}

// get returns an empty buffer that holds n bytes.
func (b *buffers) get(n int64) []byte {
	if kept := b.kept(n); kept != nil {
		return kept
	}
	if c := class(n); c < classes {
		n = leastBuffer << c
	}
	return make([]byte, 0, n)
}

// kept returns an empty buffer that holds n bytes, if one is kept; else nil.
func (b *buffers) kept(n int64) []byte {
	if c := class(n); c < classes {
		select {
		case kept := <-b.ready[c]:
			return kept
		default:
		}
	}
	return nil
}

// put keeps a buffer that is no longer read.
func (b *buffers) put(buffer []byte) {
	c := class(int64(cap(buffer)))
	if c >= classes || cap(buffer) != leastBuffer<<c {
		return
	}
	select {
	case b.ready[c] <- buffer[:0]:
	default:
	}
	b.idle.Reset(keepFor)
}

// drop leaves all kept buffers to the garbage collector.
func (b *buffers) drop() {
	for c := range b.ready {
		for b.kept(leastBuffer<<c) != nil {
		}
	}
}

// class returns the smallest class of buffers that hold n bytes.
func class(n int64) int { return max(0, bits.Len64(uint64(max(n, 1)-1))-bits.Len64(leastBuffer-1)) }

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

func newPace(w http.ResponseWriter, body io.Reader) *pace {
	now := time.Now()
	p := &pace{body: body, control: http.NewResponseController(w), due: now.Add(slowGrace), last: now.Add(readTimeout)}
	p.limit()
	return p
}

// Read implements io.Reader; errSlow: the client has sent too few bytes for the time that it took.
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
	// for long.
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
