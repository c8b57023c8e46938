// Package storetest has a store in memory, with faults, for tests of the collector.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// ErrFault is what a failing operation returns.
var ErrFault = errors.New("injected fault")

// Fault is what happens to one Create.
type Fault uint8

const (
	None      Fault = iota
	Refuse          // nothing is stored, ErrFault
	LostReply       // it is stored, but ErrFault
	Denied          // nothing is stored, blob.ErrPermission
	Stall           // nothing happens until the context ends
	Broken          // a part is read, nothing is stored, ErrFault
	Unwanted        // nothing is stored, blob.ErrRefused
)

// Store is a blob.Creator in memory. The zero value is ready.
type Store struct {
	// Fault decides on each Create; nil is none.
	Fault func(key string) Fault
	// ListFault decides on each listing.
	ListFault func(prefix string) error
	// MaxSize is how many bytes an object may have: more are blob.ErrTooLarge. 0 is no limit.
	MaxSize int64
	// Link is the way to the store; nil takes no time.
	Link *Link

	mu      sync.Mutex
	objects map[string][]byte
	puts    int
	lists   int
}

var _ blob.Creator = (*Store)(nil)

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	fault := None
	if s.Fault != nil {
		fault = s.Fault(key)
	}
	s.mu.Lock()
	s.puts++
	s.mu.Unlock()
	switch fault {
	case Refuse:
		return fmt.Errorf("create %s: %w", key, ErrFault)
	case Denied:
		return fmt.Errorf("create %s: %w", key, blob.ErrPermission)
	case Stall:
		<-ctx.Done()
		return fmt.Errorf("create %s: %w", key, ctx.Err())
	case Unwanted:
		return fmt.Errorf("create %s: %w", key, blob.ErrRefused)
	case Broken:
		_, _ = io.CopyN(io.Discard, body, 1)
		return fmt.Errorf("create %s: %w", key, ErrFault)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(s.Link.reader(ctx, body))
	if err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	if s.MaxSize > 0 && int64(len(data)) > s.MaxSize {
		return fmt.Errorf("create %s of %d bytes: %w", key, len(data), blob.ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken {
		return fmt.Errorf("create %s: %w", key, os.ErrExist)
	}
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[key] = data
	if fault == LostReply {
		return fmt.Errorf("create %s: %w", key, ErrFault)
	}
	return nil
}

// List implements blob.Lister, without folding.
func (s *Store) List(_ context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		s.mu.Lock()
		s.lists++
		keys := slices.Sorted(maps.Keys(s.objects))
		s.mu.Unlock()
		if s.ListFault != nil {
			if err := s.ListFault(prefix); err != nil {
				yield(blob.Object{}, err)
				return
			}
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) && key > opts.StartAfter && !yield(blob.Object{Key: key, Size: int64(len(s.Object(key))), ModTime: time.Unix(0, 0)}, nil) {
				return
			}
		}
	}
}

// Object is a stored object; nil if there is none.
func (s *Store) Object(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// Keys lists all keys in order.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Requests says how many puts and listings were asked for.
func (s *Store) Requests() (puts, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts, s.lists
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

// Link is a slow way to the store that all uploads share, a packet at a time.
type Link struct {
	bytesPerSecond int64
	free           chan struct{}
}

// packet is how many bytes of one upload pass before those of another may.
const packet = 4 << 10

// NewLink makes a link, in the synctest bubble that is to use it.
func NewLink(bytesPerSecond int64) *Link {
	return &Link{bytesPerSecond: bytesPerSecond, free: make(chan struct{}, 1)}
}

func (l *Link) reader(ctx context.Context, body io.Reader) io.Reader {
	if l == nil {
		return body
	}
	return &linkReader{ctx, l, body}
}

type linkReader struct {
	ctx  context.Context
	link *Link
	body io.Reader
}

func (r *linkReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(len(p), packet)])
	select {
	case r.link.free <- struct{}{}:
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
	defer func() { <-r.link.free }()
	select {
	case <-time.After(time.Duration(n) * time.Second / time.Duration(r.link.bytesPerSecond)):
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
	return n, err
}
