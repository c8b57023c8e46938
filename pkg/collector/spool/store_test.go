package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// store is a backend: immutable chunks of streams.
type store struct {
	chunks map[string]map[int64][]byte
}

func newStore() *store { return &store{chunks: make(map[string]map[int64][]byte)} }

func (b *store) create(stream string, offset int64, body []byte) error {
	if b.chunks[stream] == nil {
		b.chunks[stream] = make(map[int64][]byte)
	}
	if _, taken := b.chunks[stream][offset]; taken {
		return os.ErrExist
	}
	b.chunks[stream][offset] = body
	return nil
}

// stored is where the stream ends, by a listing.
func (b *store) stored(stream string) (end int64) {
	for offset, body := range b.chunks[stream] {
		end = max(end, offset+int64(len(body)))
	}
	return end
}

// lines counts the stored lines of all streams, each chunk by itself: a line cut in two would be found.
func (b *store) lines() map[string]int {
	lines := make(map[string]int)
	for stream, chunks := range b.chunks {
		for _, body := range chunks {
			for line := range strings.Lines(string(body)) {
				lines[stream+": "+line]++
			}
		}
	}
	return lines
}

// checkGaps reports streams whose chunks leave bytes out.
func (b *store) checkGaps(t *testing.T) {
	t.Helper()
	for stream, chunks := range b.chunks {
		end := int64(0)
		for _, offset := range slices.Sorted(maps.Keys(chunks)) {
			says.True(t, offset <= end, "%s has no bytes from %d to %d", stream, end, offset)
			end = max(end, offset+int64(len(chunks[offset])))
		}
	}
}

// answer is what becomes of a put.
type answer int

const (
	kept    answer = iota // stored, and said so
	refused               // not stored
	lost                  // stored, but the answer was lost
)

// shipOne ships one chunk as package ship does: it lists before the first chunk and after any error.
func shipOne(st *Stream, b *store, limit int64, known map[string]bool, put answer) (shipped bool, err error) {
	return shipSlowly(st, b, limit, known, put, func() {})
}

// errUnequal says that a chunk was read twice with different results.
var errUnequal = errors.New("unequal")

// shipSlowly is shipOne with a store that reads the chunk twice, some bytes at a time; meanwhile something else
// happens.
func shipSlowly(st *Stream, b *store, limit int64, known map[string]bool, put answer, meanwhile func()) (shipped bool,
	err error) {
	if !known[st.Key()] {
		if err := st.Resume(b.stored(st.Key())); err != nil {
			return false, err
		}
		known[st.Key()] = true
	}
	offset, n, _ := st.Pending(limit)
	if n == 0 {
		return false, nil
	}
	known[st.Key()] = false
	r, err := st.Open(offset, n)
	if err != nil {
		return false, err
	}
	first, err := readSlowly(r, meanwhile)
	var body []byte
	if err == nil {
		if _, err = r.Seek(0, io.SeekStart); err == nil {
			body, err = readSlowly(r, meanwhile)
		}
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return false, err
	}
	if !bytes.Equal(first, body) {
		return false, fmt.Errorf("%s at %d is read as %q and %q: %w", st.Key(), offset, first, body, errUnequal)
	}
	if int64(len(body)) != n || !bytes.HasSuffix(body, []byte("\n")) {
		return false, fmt.Errorf("read %d bytes of %s at %d, want %d, whole lines", len(body), st.Key(), offset, n)
	}
	if put == refused {
		return false, nil
	}
	if err := b.create(st.Key(), offset, body); errors.Is(err, os.ErrExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	meanwhile()
	if put == kept {
		st.Shipped(offset + n)
		known[st.Key()] = true
	}
	return true, nil
}

func readSlowly(r io.Reader, meanwhile func()) ([]byte, error) {
	var all []byte
	buf := make([]byte, 150)
	for {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		meanwhile()
	}
}

// drain ships everything.
func drain(t *testing.T, s *Spool, b *store, limit int64) {
	t.Helper()
	known := make(map[string]bool)
	for range 100_000 {
		streams := s.Streams()
		if len(streams) == 0 {
			return
		}
		for _, st := range streams {
			_, err := shipOne(st, b, limit, known, kept)
			must.True(t, err == nil || errors.Is(err, errDamaged), err)
		}
	}
	t.Fatal("the spool is never empty")
}

func testOptions() Options {
	return Options{Log: silent.Logger(), Registerer: prometheus.NewRegistry()}
}

// reopen is Open with a registry of its own.
func reopen(t testing.TB, dir string, opts Options) *Spool {
	t.Helper()
	opts.Registerer = prometheus.NewRegistry()
	s := must.Get(Open(dir, opts))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func anyKey(string) bool { return true }

func count(c prometheus.Collector) float64 { return testutil.ToFloat64(c) }

func line(stream string, i int) string {
	return fmt.Sprintf("{\"whole\": %q, \"event\": %d}\n", stream, i)
}

func batchOf(lines ...string) []Lines {
	var list []Lines
	for _, l := range lines {
		stream, _, _ := strings.Cut(strings.TrimPrefix(l, "{\"whole\": \""), "\"")
		list = append(list, Lines{Stream: stream, Data: []byte(l)})
	}
	return list
}
