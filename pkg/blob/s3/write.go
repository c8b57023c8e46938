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

const (
	// multipartFrom is the size from which an object is sent in parts, so that a broken connection costs one part, not all.
	multipartFrom = 64 << 20
	// probeSize is the largest object that is sent twice to learn whether the server honours conditions.
	probeSize = 1 << 20
)

// What is known of a server's respect for If-None-Match.
const (
	conditionsUnknown int32 = iota
	conditionsHonoured
	conditionsIgnored
)

// Create implements blob.Creator.
func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.create(ctx, key, body); err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	return nil
}

// create relies on If-None-Match. Servers exist that ignore it and overwrite, so until one is known to honour it keys are looked up
// first, and the first small object is sent a second time, which must be refused; for one that ignores it, looking up is all there
// is: safe as long as one process writes a key, which is what collectors do.
func (s *Store) create(ctx context.Context, key string, body io.ReadSeeker) error {
	size, err := remote.Size(body)
	if err != nil {
		return err
	}
	conditions := s.conditions.Load()
	if conditions != conditionsHonoured {
		if _, err := s.find(ctx, key); err == nil {
			return os.ErrExist
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if conditions == conditionsIgnored {
		return s.upload(ctx, key, body, size, false)
	}
	err = s.upload(ctx, key, body, size, true)
	switch {
	case conditions == conditionsHonoured:
	case errors.Is(err, os.ErrExist):
		s.conditions.Store(conditionsHonoured)
	case statusOf(err) == http.StatusNotImplemented:
		s.conditionsAreIgnored()
		return s.upload(ctx, key, body, size, false)
	case err == nil && size <= probeSize:
		s.probe(ctx, key, body)
	}
	return err
}

// probe sends an object that was just created once more.
func (s *Store) probe(ctx context.Context, key string, body io.ReadSeeker) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return
	}
	_, err := s.client.PutObject(ctx, &awss3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: body, IfNoneMatch: aws.String("*")})
	switch {
	case err == nil:
		s.conditionsAreIgnored()
	case statusOf(err) == http.StatusPreconditionFailed:
		s.conditions.Store(conditionsHonoured)
	}
}

func (s *Store) conditionsAreIgnored() {
	if s.conditions.Swap(conditionsIgnored) != conditionsIgnored {
		s.log.Warn("the S3 server ignores If-None-Match: keys are looked up before they are written, which costs a listing each; give no two collectors the same node")
	}
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	size, err := remote.Size(body)
	if err == nil {
		err = s.upload(ctx, key, body, size, false)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// upload stores the body, create-only if absent is set.
func (s *Store) upload(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) error {
	if size > multipartFrom {
		return s.uploadParts(ctx, key, body, size, absent)
	}
	input := &awss3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: body, ContentLength: &size}
	if absent {
		input.IfNoneMatch = aws.String("*")
	}
	attempts := 0
	err := s.withBucket(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := s.client.PutObject(ctx, input, countAttempts(&attempts))
		return err
	})
	err = s.explain(err, "s3:PutObject")
	if errors.Is(err, os.ErrExist) && attempts > 1 {
		// Perhaps it is this object that is in its own way: stored by an attempt whose answer was lost.
		sum, sumErr := remote.MD5(body)
		if sumErr != nil {
			return sumErr
		}
		if s.holds(ctx, key, size, hex.EncodeToString(sum[:])) {
			return nil
		}
	}
	return err
}

// holds says whether the object under key is the one of this size and ETag.
func (s *Store) holds(ctx context.Context, key string, size int64, etag string) bool {
	o, err := s.find(ctx, key)
	return err == nil && o.Size == size && o.ETag == etag
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	if err = s.explain(err, "s3:DeleteObject"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// countAttempts counts how often an operation is sent.
func countAttempts(n *int) func(*awss3.Options) {
	count := middleware.FinalizeMiddlewareFunc("CountAttempts", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
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
