package scrape

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// latest keeps the answer of each endpoint to the last read, for a Prometheus that asks the collector instead of Ray.
// An endpoint that could not be read has none: Prometheus gives what it gets the time of now, so earlier values would
// be wrong. Compression reduces an answer to a twentieth.
type latest struct {
	writer *zstd.Encoder // of the answer being read
	data   bytes.Buffer
	max    int64 // bytes of all answers, compressed
	port   int   // of the answer being read
	isFull bool  // it does not fit

	mu      sync.Mutex
	ports   []int // the node's exporter is the first
	answers map[int][]byte
}

func newLatest(maxBytes int64) *latest {
	// One goroutine and a small window: a line of an exposition resembles the line before it.
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(128<<10))
	if err != nil {
		panic(err) // the options are constant
	}
	return &latest{writer: writer, max: maxBytes, answers: make(map[int][]byte)}
}

// setPorts sets the ports that are read now. The answers of others are dropped.
func (l *latest) setPorts(ports []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports = ports
	maps.DeleteFunc(l.answers, func(port int, _ []byte) bool { return !slices.Contains(ports, port) })
}

func (l *latest) dropAnswer(port int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answers, port)
}

// recordAnswer returns a reader of r that keeps a compressed copy of what is read. After all of it was read, the caller
// calls done: then the copy becomes the answer of this port, unless all ports' answers would take more than l.max
// bytes. One answer is recorded at a time.
func (l *latest) recordAnswer(r io.Reader, port int) (tee io.Reader, done func()) {
	l.data, l.isFull, l.port = bytes.Buffer{}, false, port
	l.writer.Reset(l)
	return io.TeeReader(r, l.writer), func() {
		err := l.writer.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.answers, port); err == nil && !l.isFull {
			l.answers[port] = l.data.Bytes()
		}
		l.data = bytes.Buffer{}
	}
}

// Write takes compressed bytes of the answer, and no more of it once all answers would take too much memory.
func (l *latest) Write(p []byte) (int, error) {
	total := int64(l.data.Len() + len(p))
	l.mu.Lock()
	for port, answer := range l.answers {
		if port != l.port {
			total += int64(cap(answer))
		}
	}
	l.mu.Unlock()
	if l.isFull = l.isFull || total > l.max; l.isFull {
		l.data = bytes.Buffer{}
		return len(p), nil
	}
	return l.data.Write(p)
}

// ServeHTTP answers with the last metrics that were read from the node's exporter, or from the port of this node that
// the query names: ?port=44217.
func (l *latest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	ports := l.ports
	var port int
	if len(ports) > 0 {
		port = ports[0]
	}
	if asked := r.URL.Query().Get("port"); asked != "" {
		port, _ = strconv.Atoi(asked) // 0, where nothing was read, if it is no number
	}
	answer, ok := l.answers[port]
	l.mu.Unlock()
	if !ok {
		http.Error(w, fmt.Sprintf("no metrics were read at this port; those that are read: %v", ports),
			http.StatusNotFound)
		return
	}
	plain, err := zstd.NewReader(bytes.NewReader(answer), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer plain.Close()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = plain.WriteTo(w)
}
