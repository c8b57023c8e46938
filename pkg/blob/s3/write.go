package s3

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// maxUncheckedPut is the size in bytes up to which a body is sent before the bucket is known to exist. Servers that
// refuse a larger body do not read all of it, and the answer that says why is lost when the connection is reset (seen
// with versitygw).
const maxUncheckedPut = 64 << 10

// Create implements blob.Creator. It relies on If-None-Match, as far as the server does.
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
		Write: func(absent bool) error {
			err := s.upload(ctx, key, body, size, absent)
			if statusOf(err) == http.StatusNotImplemented {
				return remote.ErrNoConditions
			}
			return err
		},
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
	return remote.AcceptOwnWrite(err, attempts, body,
		func(sum []byte) bool { return s.holds(ctx, key, size, hex.EncodeToString(sum)) })
}

// put stores the body by one request. attempts is how often it was sent.
func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) (attempts int,
	err error) {
	input := &awss3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: body, ContentLength: &size}
	if absent {
		input.IfNoneMatch = aws.String("*")
	}
	if size > maxUncheckedPut && !s.bucketSeen.Load() {
		if _, _, err := s.listPage(ctx, s.lookup(key)); err != nil {
			return 0, err
		}
	}
	err = s.withBucket(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := s.client.PutObject(ctx, input, countAttempts(&attempts))
		return err
	})
	return attempts, s.mapError(err, "s3:PutObject")
}

// holds says whether the object under key is the one of this size and ETag.
func (s *Store) holds(ctx context.Context, key string, size int64, etag string) bool {
	o, err := s.find(ctx, key)
	return err == nil && o.Size == size && o.ETag == etag
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	if err = s.mapError(err, "s3:DeleteObject"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// countAttempts counts how often an operation is sent.
func countAttempts(n *int) func(*awss3.Options) {
	count := middleware.FinalizeMiddlewareFunc("CountAttempts",
		func(ctx context.Context, in middleware.FinalizeInput,
			next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			*n++
			return next.HandleFinalize(ctx, in)
		})
	return awss3.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(count, "Retry", middleware.After)
	})
}

// statusOf is the HTTP status behind an error, 0 if there is none.
func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}
