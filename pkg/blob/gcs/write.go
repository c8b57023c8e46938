package gcs

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/storage"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

const (
	// chunk is how much of an object is sent, and so held in memory, at once.
	chunk = 16 << 20
	// chunkUnit is what the service wants chunks to be multiples of.
	chunkUnit = 256 << 10
)

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	failures := 0
	object := s.bucket.Object(key).If(storage.Conditions{DoesNotExist: true}).Retryer(storage.WithErrorFunc(func(err error) bool {
		failures++
		return shouldRetry(err)
	}))
	err := s.upload(ctx, object, body)
	if errors.Is(err, os.ErrExist) && failures > 1 && s.holds(ctx, key, body) {
		return nil // stored by an attempt whose answer was lost
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	return nil
}

// holds says whether what is stored under key is the body.
func (s *Store) holds(ctx context.Context, key string, body io.ReadSeeker) bool {
	attrs, err := s.find(ctx, key)
	if err != nil || len(attrs.MD5) != md5.Size {
		return false
	}
	sum, err := remote.MD5(body)
	return err == nil && sum == [md5.Size]byte(attrs.MD5)
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.upload(ctx, s.bucket.Object(key), body); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (s *Store) upload(ctx context.Context, object *storage.ObjectHandle, body io.ReadSeeker) error {
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	err = s.withBucket(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		// Only a cancelled context keeps the writer from storing what it has when it is closed.
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w := object.NewWriter(ctx)
		w.ContentType = "application/octet-stream"
		// An object that is smaller than its chunk is sent, and repeated, by one request.
		w.ChunkSize = int(min(size/chunkUnit*chunkUnit+chunkUnit, chunk))
		if _, err := io.Copy(w, body); err != nil {
			cancel(err)
			_ = w.Close()
			return err
		}
		return w.Close()
	})
	return s.explain(err, "storage.objects.create")
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.bucket.Object(key).Delete(ctx)
	if err = s.explain(err, "storage.objects.delete"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
