package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/semaphore"
)

// bodies reads requests' bodies into memory, of which it takes only so much at a time.
type bodies struct {
	max     int64 // bytes of one body
	memory  *semaphore.Weighted
	taken   atomic.Int64 // bytes of memory
	waiting atomic.Int64 // requests
	buffers sync.Pool    // of *[]byte, at most keepBytes each
	gzips   sync.Pool
}

// body is a request's body. Its memory is taken from the bodies' until it is released.
type body struct {
	bytes []byte
	taken int64
}

const (
	// firstBytes is what a body of unknown length gets to begin with, then always the double.
	firstBytes = 1 << 20
	keepBytes  = 4 << 20
	// maxWaiting requests wait for memory, each for memoryWait: Ray gives up after 3 s.
	maxWaiting = 64
	memoryWait = time.Second
	// readTimeout ends a client that sends nothing but holds memory.
	readTimeout = 30 * time.Second
)

func newBodies(maxBody, maxMemory int64) *bodies {
	return &bodies{max: maxBody, memory: semaphore.NewWeighted(maxMemory)}
}

var errTooLarge = errors.New("body is too large")

// read reads the whole body, inflated if it is compressed. Release it.
func (m *bodies) read(w http.ResponseWriter, r *http.Request) (*body, *problem) {
	if r.ContentLength > m.max {
		return nil, m.tooLarge()
	}
	compressed := r.Header.Get("Content-Encoding") == "gzip"
	size := r.ContentLength
	if size < 0 || compressed {
		size = min(firstBytes, m.max)
	}
	b := &body{}
	if !m.wait(r.Context(), size) {
		return nil, busy()
	}
	b.taken = size
	// A deadline can't be set on every writer; there the server's own timeouts must do.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var err error
	switch {
	case compressed:
		err = m.inflate(b, r.Body)
	case r.ContentLength >= 0:
		b.bytes = m.buffer(size)[:size]
		_, err = io.ReadFull(r.Body, b.bytes)
	default:
		err = m.readAll(b, r.Body)
	}
	if err == nil {
		return b, nil
	}
	m.release(b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, m.tooLarge()
	case errors.Is(err, errBusy):
		return nil, busy()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{status: http.StatusRequestTimeout, reason: "unreadable", text: fmt.Sprintf("the body did not come within %v", readTimeout)}
	}
	return nil, &problem{status: http.StatusBadRequest, reason: "unreadable", text: fmt.Sprintf("the body can't be read to its end: %v", err)}
}

func (m *bodies) tooLarge() *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, reason: "too_large",
		text: fmt.Sprintf("the body has more than %d bytes; send smaller batches (RAY_DASHBOARD_AGGREGATOR_AGENT_MAX_EVENT_SEND_BATCH_SIZE)", m.max)}
}

var errBusy = errors.New("no memory is free")

func busy() *problem {
	return &problem{status: http.StatusServiceUnavailable, reason: "busy", retryAfter: retrySoon,
		text: "too many events are being taken at once; send them again"}
}

// wait takes memory, for which it waits a moment.
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

// grow doubles a body's memory. It does not wait for it: requests that wait for each other's would wait for ever.
func (m *bodies) grow(b *body) error {
	size := min(2*int64(cap(b.bytes)), m.max+1)
	if size <= int64(cap(b.bytes)) {
		return errTooLarge
	}
	more := min(size, m.max) - b.taken
	if !m.memory.TryAcquire(more) {
		return errBusy
	}
	m.taken.Add(more)
	b.taken += more
	larger := append(make([]byte, 0, size), b.bytes...)
	m.keep(b.bytes)
	b.bytes = larger
	return nil
}

// readAll reads to the end, however far that is. One byte more than allowed tells that there is more.
func (m *bodies) readAll(b *body, r io.Reader) error {
	b.bytes = m.buffer(b.taken)
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := m.grow(b); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		if b.bytes = b.bytes[:len(b.bytes)+n]; int64(len(b.bytes)) > m.max {
			return errTooLarge
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *bodies) inflate(b *body, r io.Reader) error {
	z, ok := m.gzips.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	defer m.gzips.Put(z)
	if err := z.Reset(r); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	if err := m.readAll(b, z); err != nil {
		return fmt.Errorf("inflate: %w", err)
	}
	return nil
}

// buffer is an empty buffer with room for n bytes.
func (m *bodies) buffer(n int64) []byte {
	if kept, ok := m.buffers.Get().(*[]byte); ok && int64(cap(*kept)) >= n {
		return (*kept)[:0]
	}
	return make([]byte, 0, n)
}

func (m *bodies) keep(b []byte) {
	if cap(b) > 0 && cap(b) <= keepBytes {
		m.buffers.Put(&b)
	}
}

// release gives the body's memory back.
func (m *bodies) release(b *body) {
	m.keep(b.bytes)
	m.memory.Release(b.taken)
	m.taken.Add(-b.taken)
}
