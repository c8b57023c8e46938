// Package storetest has the stores of tests: Store is one in memory, and Hooked is any store of which a test sees,
// delays, blocks, fails or changes the operations.
package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Store is a blob.Store in memory. The zero value is empty. Its clock is time.Now, so in a bubble of testing/synctest
// it is the bubble's. Objects may be filled by hand, and the other fields set, before it is used; after that it is safe
// for concurrent use.
type Store struct {
	Objects map[string][]byte
	// Read counts the bytes that are read of objects.
	Read atomic.Int64
	// Fault decides on each Create; nil is none.
	Fault func(key string) Fault
	// ListFault decides on each listing.
	ListFault func(prefix string) error
	// MaxSize is how many bytes an object may have: more are blob.ErrTooLarge. 0 is no limit.
	MaxSize int64
	// Link is the way to the store; nil takes no time.
	Link *Link

	mu      sync.Mutex
	written map[string]time.Time // of those that were not filled by hand
	creates int
	lists   int
}

var _ blob.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{Objects: map[string][]byte{}} }

// List implements blob.Lister.
func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		found, err := s.list(ctx, prefix, opts)
		if err != nil {
			yield(blob.Object{}, err)
			return
		}
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (s *Store) list(ctx context.Context, prefix string, opts blob.ListOptions) (found []blob.Object, err error) {
	s.mu.Lock()
	s.lists++
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.ListFault != nil {
		if err := s.ListFault(prefix); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.Objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		rest := key[len(prefix):]
		o := blob.Object{Key: key}
		if i := strings.IndexByte(rest, '/'); opts.Delimited && i >= 0 {
			o = blob.Object{Key: prefix + rest[:i+1], Prefix: true}
		}
		if n := len(found); o.Key <= opts.StartAfter || n > 0 && found[n-1].Key == o.Key {
			continue
		}
		if !o.Prefix {
			o = s.object(key)
		}
		found = append(found, o)
	}
	return found, nil
}

func (s *Store) object(key string) blob.Object {
	body := s.Objects[key]
	return blob.Object{Key: key, Size: int64(len(body)), ModTime: s.written[key],
		ETag: fmt.Sprintf("%x", sha256.Sum256(body))}
}

// Stat implements blob.Reader.
func (s *Store) Stat(ctx context.Context, key string) (blob.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return blob.Object{}, err
	}
	if _, ok := s.Objects[key]; !ok {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, os.ErrNotExist)
	}
	return s.object(key), nil
}

// Get implements blob.Reader.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	body, ok := s.Objects[key]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("get %s: %w", key, os.ErrNotExist)
	}
	body = body[min(offset, int64(len(body))):]
	if length >= 0 {
		body = body[:min(length, int64(len(body)))]
	}
	s.Read.Add(int64(len(body)))
	return io.NopCloser(bytes.NewReader(body)), nil
}

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	fault := None
	if s.Fault != nil {
		fault = s.Fault(key)
	}
	s.mu.Lock()
	s.creates++
	s.mu.Unlock()
	err := fault.before(ctx, body)
	if err == nil {
		err = s.write(ctx, key, body, false)
	}
	if err == nil {
		err = fault.after()
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	return nil
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.write(ctx, key, body, true)
}

func (s *Store) write(ctx context.Context, key string, body io.ReadSeeker, replace bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(s.Link.reader(ctx, body))
	if err != nil {
		return err
	}
	if s.MaxSize > 0 && int64(len(data)) > s.MaxSize {
		return fmt.Errorf("%d bytes: %w", len(data), blob.ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.Objects[key]; taken && !replace {
		return os.ErrExist
	}
	if s.Objects == nil {
		s.Objects = make(map[string][]byte)
	}
	s.Objects[key] = data
	s.setWritten(key, time.Now())
	return nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	delete(s.Objects, key)
	delete(s.written, key)
	return nil
}

// Written sets when an object was stored.
func (s *Store) Written(key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setWritten(key, at)
}

// Age has all objects be of a time ago.
func (s *Store) Age(d time.Duration) {
	for _, key := range s.Keys() {
		s.Written(key, time.Now().Add(-d))
	}
}

func (s *Store) setWritten(key string, at time.Time) {
	if s.written == nil {
		s.written = make(map[string]time.Time)
	}
	s.written[key] = at
}

// Object is a stored object; nil if there is none.
func (s *Store) Object(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Objects[key]
}

// Keys lists all keys in order.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.Objects))
}

// Requests says how many creates and listings were asked for.
func (s *Store) Requests() (creates, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creates, s.lists
}

// Joined returns a stream, joined of its chunks, which must be plain. A gap or overlap is an error.
func (s *Store) Joined(stream string, parse func(key string) (string, int64)) ([]byte, error) {
	var joined bytes.Buffer
	for _, key := range s.Keys() {
		of, offset := parse(key)
		if of != stream {
			continue
		}
		if offset != int64(joined.Len()) {
			return nil, fmt.Errorf("%s begins at %d, the chunks before it end at %d", key, offset, joined.Len())
		}
		joined.Write(s.Object(key))
	}
	return joined.Bytes(), nil
}
