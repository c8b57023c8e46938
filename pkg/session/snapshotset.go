package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// SnapshotSet knows which answers of the live dashboard were saved, and when, and the hardware figures. Their bodies are read from the store when they are asked
// for. It may be used by several goroutines.
type SnapshotSet struct {
	store  blob.Reader
	series seriesSet

	mu    sync.Mutex
	byURL map[string][]*Snapshot // URL as canonicalURL spells it → versions in order of time
	// held is a queue of the snapshots whose values are in memory, the longest unused first.
	held      []*Snapshot
	heldBytes int64
	nameBytes int64
}

// Snapshot is one saved answer: the body of a dashboard's answer with status 200.
type Snapshot struct {
	URL string // path and query, without a slash at the path's end
	// Taken is when the answer was given, Unix nanoseconds; 0 for the first of a URL, whose key does not tell.
	Taken int64

	key  string
	size int64

	value     any   // while held
	malformed error // why it cannot be parsed, if it was tried
}

// ErrMalformed is a snapshot that is not what a dashboard answers.
var ErrMalformed = errors.New("malformed snapshot")

// maxSnapshotBytes bounds one snapshot's body, maxHeldBytes the memory of a session's parsed snapshots.
const (
	maxSnapshotBytes = 256 << 20
	maxHeldBytes     = 64 << 20
)

// NewSnapshotSet makes an empty set that reads from store.
func NewSnapshotSet(store blob.Reader) *SnapshotSet {
	return &SnapshotSet{store: store, byURL: make(map[string][]*Snapshot), series: seriesSet{hours: NewLogSet(store)}}
}

// canonicalURL is the form that stored names keep of a URL: their spelling of a slash is two underscores, and a slash at the end of the
// path is dropped.
func canonicalURL(url string) string {
	p, query, hasQuery := strings.Cut(url, "?")
	p = strings.TrimRight(strings.ReplaceAll(p, "__", "/"), "/")
	if hasQuery {
		return p + "?" + query
	}
	return p
}

// Add tells of one stored snapshot, or of a part of the stored hardware figures. Adding it again changes nothing, unless it was rewritten
// with another size.
func (s *SnapshotSet) Add(o layout.Object, b blob.Object) {
	if o.Kind == layout.Series {
		s.series.add(o, b)
		return
	}
	snap := &Snapshot{URL: canonicalURL(o.Path), Taken: min(o.Offset, math.MaxInt64/int64(time.Millisecond)) * int64(time.Millisecond), key: b.Key, size: b.Size}
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := s.byURL[snap.URL]
	i, found := slices.BinarySearchFunc(versions, snap.Taken, func(v *Snapshot, t int64) int {
		switch {
		case v.Taken < t:
			return -1
		case v.Taken > t:
			return 1
		}
		return 0
	})
	if found {
		if versions[i].size != snap.size {
			s.drop(versions[i])
			versions[i] = snap
		}
		return
	}
	s.byURL[snap.URL] = slices.Insert(versions, i, snap)
	s.nameBytes += int64(2*len(b.Key)) + 128
}

// URLs lists the URLs of path (without its query) of which there is a snapshot, sorted.
func (s *SnapshotSet) URLs(path string) []string {
	path = canonicalURL(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	var urls []string
	for url := range s.byURL {
		if p, _, _ := strings.Cut(url, "?"); p == path {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	return urls
}

// Last finds the last snapshot of url taken at or before at (Unix nanoseconds, 0 for the end of the session). Where the first was taken
// later than at, it is the first: what it tells is nearer to the truth than nothing. No snapshot of url is os.ErrNotExist.
func (s *SnapshotSet) Last(url string, at int64) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := s.byURL[canonicalURL(url)]
	if len(versions) == 0 {
		return nil, fmt.Errorf("snapshot of %s: %w", url, os.ErrNotExist)
	}
	last := versions[len(versions)-1]
	if at != 0 {
		last = versions[0]
		for _, v := range versions {
			if v.Taken <= at {
				last = v
			}
		}
	}
	return last, nil
}

// Value reads and parses a snapshot, or gives what was parsed before. The value must not be changed. An error that is not the store's
// is ErrMalformed.
func (s *SnapshotSet) Value(ctx context.Context, snap *Snapshot) (any, error) {
	s.mu.Lock()
	held := slices.Contains(s.held, snap)
	value, malformed := snap.value, snap.malformed
	s.touch(snap)
	s.mu.Unlock()
	if malformed != nil {
		return nil, malformed
	}
	if held {
		return value, nil
	}
	body, err := s.read(ctx, snap)
	if err != nil {
		return nil, err
	}
	value, err = pyjson.Parse(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		snap.malformed = fmt.Errorf("%w %q: %w", ErrMalformed, snap.key, err)
		return nil, snap.malformed
	}
	s.hold(snap, value)
	return value, nil
}

func (s *SnapshotSet) read(ctx context.Context, snap *Snapshot) ([]byte, error) {
	if snap.size > maxSnapshotBytes {
		return nil, fmt.Errorf("%w %q: %d bytes are more than the %d allowed", ErrMalformed, snap.key, snap.size, maxSnapshotBytes)
	}
	r, err := s.store.Get(ctx, snap.key, 0, maxSnapshotBytes)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %q: %w", snap.key, err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %q: %w", snap.key, err)
	}
	return body, nil
}

func (s *SnapshotSet) hold(snap *Snapshot, value any) {
	s.drop(snap)
	snap.value = value
	s.held = append(s.held, snap)
	s.heldBytes += snap.memory()
	for s.heldBytes > maxHeldBytes && len(s.held) > 1 {
		s.drop(s.held[0])
	}
}

// memory estimates what the parsed value takes: six times the text (BenchmarkParse in package pyjson).
func (snap *Snapshot) memory() int64 { return 6 * snap.size }

func (s *SnapshotSet) drop(snap *Snapshot) {
	if i := slices.Index(s.held, snap); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
		s.heldBytes -= snap.memory()
		snap.value = nil
	}
}

func (s *SnapshotSet) touch(snap *Snapshot) {
	if i := slices.Index(s.held, snap); i >= 0 {
		s.held = append(slices.Delete(s.held, i, i+1), snap)
	}
}

// MemoryBytes estimates the memory the set holds now.
func (s *SnapshotSet) MemoryBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nameBytes + s.heldBytes
}
