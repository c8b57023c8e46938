package aliyunoss

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Create implements blob.Creator. It relies on x-oss-forbid-overwrite, as far as the bucket honours it.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer remote.Name(&err, "create", key)
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	return s.conditions.Create(remote.Creation{
		Find: func() error {
			_, err := s.find(ctx, key)
			return err
		},
		Write: func(absent bool) error { return s.upload(ctx, key, body, size, absent) },
		Repeat: func() error {
			_, err := s.put(ctx, key, body, size, true)
			return err
		},
		Size: size,
	})
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer remote.Name(&err, "put", key)
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	return s.upload(ctx, key, body, size, false)
}

// upload stores the body, create-only if absent is set.
func (s *Store) upload(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) error {
	if remote.InParts(size, absent) {
		return s.uploadParts(ctx, key, body, size, absent)
	}
	attempts, err := s.put(ctx, key, body, size, absent)
	return remote.AcceptOwnWrite(err, attempts, body, func(sum []byte) bool {
		o, err := s.find(ctx, key)
		return err == nil && o.Size == size && o.ETag == fmt.Sprintf("%X", sum)
	})
}

// put stores the body by one request. attempts is how often it was sent.
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) (attempts int,
	err error) {
	body = remote.Body(body)
	err = s.do(ctx, "oss:PutObject", func(options ...oss.Option) error {
		attempts++
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return s.bucket.PutObject(key, &io.LimitedReader{R: body, N: size},
			append(options, oss.ForbidOverWrite(absent))...)
	})
	return attempts, err
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.do(ctx, "oss:DeleteObject",
		func(options ...oss.Option) error { return s.bucket.DeleteObject(key, options...) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
