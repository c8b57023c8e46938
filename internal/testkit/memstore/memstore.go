// Package memstore is a store in memory for tests that check what is read.
package memstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Store is a blob.Store in memory. Its clock is time.Now, so in a bubble of testing/synctest it is the bubble's. It counts the bytes that are
// read of it. Objects may be filled by hand before it is used; after that it is safe for concurrent use.
type Store struct {
	Objects map[string][]byte
	Read    atomic.Int64

	mu      sync.Mutex
	written map[string]time.Time // of those that were not filled by hand
}

// New makes an empty store.
func New() *Store { return &Store{Objects: map[string][]byte{}, written: map[string]time.Time{}} }

// List implements blob.Lister.
func (s *Store) List(_ context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	s.mu.Lock()
	var found []blob.Object
	for _, key := range slices.Sorted(maps.Keys(s.Objects)) {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || key <= opts.StartAfter {
			continue
		}
		o := s.object(key)
		if i := strings.IndexByte(rest, '/'); opts.Delimited && i >= 0 {
			o = blob.Object{Key: prefix + rest[:i+1], Prefix: true}
		}
		if n := len(found); n == 0 || found[n-1].Key != o.Key {
			found = append(found, o)
		}
	}
	s.mu.Unlock()
	return func(yield func(blob.Object, error) bool) {
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (s *Store) object(key string) blob.Object {
	body := s.Objects[key]
	return blob.Object{Key: key, Size: int64(len(body)), ModTime: s.written[key], ETag: fmt.Sprintf("%x", sha256.Sum256(body))}
}

// Stat implements blob.Reader.
func (s *Store) Stat(_ context.Context, key string) (blob.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.Objects[key]; !ok {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, os.ErrNotExist)
	}
	return s.object(key), nil
}

// Get implements blob.Reader.
func (s *Store) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	s.mu.Lock()
	body, ok := s.Objects[key]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("get %s: %w", key, os.ErrNotExist)
	}
	end := int64(len(body))
	if length >= 0 {
		end = min(end, offset+length)
	}
	body = body[min(offset, end):end]
	s.Read.Add(int64(len(body)))
	return io.NopCloser(bytes.NewReader(body)), nil
}

// Create implements blob.Creator.
func (s *Store) Create(_ context.Context, key string, body io.ReadSeeker) error {
	return s.write(key, body, false)
}

// Put implements blob.Store.
func (s *Store) Put(_ context.Context, key string, body io.ReadSeeker) error {
	return s.write(key, body, true)
}

func (s *Store) write(key string, body io.Reader, replace bool) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.Objects[key]; ok && !replace {
		return fmt.Errorf("create %s: %w", key, os.ErrExist)
	}
	s.Objects[key], s.written[key] = data, time.Now()
	return nil
}

// Delete implements blob.Store.
func (s *Store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Objects, key)
	delete(s.written, key)
	return nil
}

// Written sets when an object was stored.
func (s *Store) Written(key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[key] = at
}

// Allocated is how many bytes do allocates.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
