// Package snapshots knows what is stored of a session besides events and logs: answers of the live dashboard
// (snapshots) and hardware figures (series).
//
// A Set holds only names and sizes. Bodies are read on request, within a memory budget, and parsed once for all
// callers.
package snapshots

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Set lists the stored snapshots by URL and time, and the series. It is safe for concurrent use.
type Set struct {
	store  blob.Reader
	opts   Options
	series seriesSet

	values *cache.Cache[object, parsedSnapshot] // that were read; sets of the same session share them

	mu        sync.Mutex
	byURL     map[string][]*Snapshot // URL as canonicalURL spells it → versions in order of time
	nameBytes int64
	refused   []string // sentences about snapshots that are not shown, at most maxRefused
	archived  bool     // the store has archived one that was wanted
}

// Snapshot is one saved answer: the body of a dashboard's answer with status 200.
type Snapshot struct {
	url string // path and query, without a slash at the path's end
	// Taken is when the answer was given, Unix nanoseconds; 0 for the first of a URL, whose key does not tell.
	Taken int64
	// Stored is when the object was stored or copied, Unix nanoseconds: the answer was given before.
	Stored int64

	object
}

// object identifies the content of a stored snapshot.
type object struct {
	key, etag string
	size      int64
}

// parsedSnapshot is what parsing a snapshot gave: a value of so many bytes, or why there is none.
type parsedSnapshot struct {
	value     any
	bytes     int64
	malformed error
}

// ErrMalformed is a snapshot that is not what a dashboard answers.
var ErrMalformed = errors.New("malformed snapshot")

const (
	// maxCachedBytes bounds the memory of a session's parsed snapshots; one that takes more is held alone. parsedBytes
	// is what each takes besides its value.
	maxCachedBytes = 64 << 20
	parsedBytes    = 512
	// usualBytes is what reading and parsing a snapshot of the usual size takes at most. One that takes more is read
	// again when no other large one is being read.
	usualBytes = 4 << 20
	// maxParsedBytes bounds reading and parsing one where no budget does.
	maxParsedBytes = 1 << 30
	maxRefused     = 10
)

// Options of a Set.
type Options struct {
	// Memory bounds the memory of reading snapshots and series; nil means no bound.
	Memory *budget.Budget
	// Grew, if set, is called when the set holds much more than before.
	Grew func()
}

// New makes an empty set whose bodies are read from store.
func New(store blob.Reader, opts Options) *Set {
	return &Set{
		store: store, opts: opts, byURL: make(map[string][]*Snapshot),
		values: cache.New[object](maxCachedBytes, cache.Forever, func(p parsedSnapshot) int64 {
			return min(parsedBytes+p.bytes, maxCachedBytes)
		}),
		series: seriesSet{hours: sessionlogs.New(store), memory: opts.Memory,
			cached: cache.New[string, *seriesHour](maxCachedHours, cache.Forever, nil)},
	}
}

// canonicalURL is the form of a URL that stored names keep: they spell a slash as two underscores and drop one at the
// path's end.
func canonicalURL(url string) string {
	p, query, hasQuery := strings.Cut(url, "?")
	p = strings.TrimRight(strings.ReplaceAll(p, "__", "/"), "/")
	if hasQuery {
		return p + "?" + query
	}
	return p
}

// Add adds one stored snapshot or one chunk of the series. An object that was added before is replaced if its size
// changed.
func (s *Set) Add(o layout.Object, b blob.Object) {
	if o.Kind == layout.Series {
		s.series.add(o, b)
		return
	}
	const ms = int64(time.Millisecond)
	taken := min(o.Offset, math.MaxInt64/ms) * ms // the key has Unix milliseconds where others have an offset
	snap := &Snapshot{url: canonicalURL(o.Path), Taken: taken, object: object{b.Key, b.ETag, b.Size}}
	if !b.ModTime.IsZero() {
		snap.Stored = b.ModTime.UnixNano()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := s.byURL[snap.url]
	i, found := slices.BinarySearchFunc(versions, snap.Taken,
		func(v *Snapshot, t int64) int { return cmp.Compare(v.Taken, t) })
	if found {
		if versions[i].size != snap.size {
			s.values.Delete(versions[i].object)
			versions[i] = snap
		}
		return
	}
	s.byURL[snap.url] = slices.Insert(versions, i, snap)
	const versionBytes = 128                          // the Snapshot and its place in the list
	s.nameBytes += int64(2*len(b.Key)) + versionBytes // the URL is about as long as the key
}

// URLs lists the URLs of path (without its query) of which there is a snapshot, sorted.
func (s *Set) URLs(path string) []string {
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

// LargestOf is the size of the largest stored snapshot of path, with any query; 0 if there is none.
func (s *Set) LargestOf(path string) (bytes int64) {
	for _, url := range s.URLs(path) {
		for _, v := range s.Versions(url) {
			if v.size <= layout.MaxSnapshot {
				bytes = max(bytes, v.size)
			}
		}
	}
	return bytes
}

// Last finds the last snapshot of url taken at or before at (Unix nanoseconds, 0 for the end of the session). If all
// were taken later, it returns the first: that is nearer to the truth than nothing. No snapshot of url is
// os.ErrNotExist.
func (s *Set) Last(url string, at int64) (*Snapshot, error) {
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

// Versions returns all snapshots of url, in the order in which they were taken.
func (s *Set) Versions(url string) []*Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.byURL[canonicalURL(url)])
}

// Dropped finds the last snapshots of url, the newest first and at most n, of which the next one was taken at or before
// at (0: the session's end) and is smaller by drop bytes at least: it lacks something that they have.
func (s *Set) Dropped(url string, at, drop int64, n int) (found []*Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := s.byURL[canonicalURL(url)]
	for i := len(versions) - 2; i >= 0 && len(found) < n; i-- {
		if next := versions[i+1]; (at == 0 || next.Taken <= at) && versions[i].size-next.size >= drop {
			found = append(found, versions[i])
		}
	}
	return found
}

// Shrink frees everything that can be read again.
func (s *Set) Shrink() {
	s.values.Clear()
	s.series.cached.Clear()
}

// Adopt lets a new set share what a former one of the same session has read: that stays valid as long as the objects
// do. Call it before others use the set.
func (s *Set) Adopt(former *Set) {
	former.mu.Lock()
	s.refused, s.archived = slices.Clone(former.refused), former.archived
	former.mu.Unlock()
	s.values, s.series.cached = former.values, former.series.cached
}

// MemoryBytes estimates the memory the set holds now.
func (s *Set) MemoryBytes() int64 {
	s.mu.Lock()
	bytes := s.nameBytes
	s.mu.Unlock()
	for _, p := range s.values.All() {
		bytes += p.bytes
	}
	for _, h := range s.series.cached.All() {
		samples, _ := h.Loaded()
		bytes += samples.bytes
	}
	return bytes
}

// SeriesContents changes with the chunks of series that there are.
func (s *Set) SeriesContents() uint64 { return s.series.hours.Contents() }
