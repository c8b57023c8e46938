// Package memstore is a store in memory for tests that check what is read.
package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Store counts the bytes that are read of it. It lists nothing. Once it is filled it is safe for concurrent use.
type Store struct {
	Objects map[string][]byte
	Read    atomic.Int64
}

// New makes an empty store.
func New() *Store { return &Store{Objects: map[string][]byte{}} }

// List implements blob.Lister.
func (s *Store) List(context.Context, string, blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(func(blob.Object, error) bool) {}
}

// Stat is not supported.
func (s *Store) Stat(context.Context, string) (blob.Object, error) {
	return blob.Object{}, errors.ErrUnsupported
}

// Get implements blob.Getter.
func (s *Store) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, ok := s.Objects[key]
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

// Allocated is how many bytes do allocates.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
