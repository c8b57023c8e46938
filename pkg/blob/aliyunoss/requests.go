package aliyunoss

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// do sends a request until it is answered, as the SDK does not; each attempt gets the options that every request needs. Where the
// bucket is missing and may be made, it makes it and goes on.
func (s *Store) do(ctx context.Context, permission string, request func(options ...oss.Option) error) error {
	attempt := func() remote.Outcome {
		var header http.Header
		err := request(oss.WithContext(ctx), oss.GetResponseHeader(&header))
		return remote.Outcome{Err: err, Retry: shouldRetry(err), Asked: remote.RetryAfter(header)}
	}
	err := remote.Retry(ctx, attempt)
	if s.createBucket && codeOf(err) == "NoSuchBucket" {
		if err := s.makeBucket(ctx); err != nil {
			return err
		}
		err = remote.Retry(ctx, attempt)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.explain(err, permission)
}

func (s *Store) makeBucket(ctx context.Context) error {
	err := remote.Retry(ctx, func() remote.Outcome {
		err := s.client.CreateBucket(s.name, oss.WithContext(ctx))
		return remote.Outcome{Err: err, Retry: shouldRetry(err)}
	})
	switch {
	case err == nil:
		s.log.WithField("bucket", s.name).Info("made the bucket")
	case codeOf(err) == "BucketAlreadyExists": // by another process, just now
	default:
		return fmt.Errorf("bucket %s does not exist; making it: %w", s.name, s.explain(err, "oss:PutBucket"))
	}
	return nil
}

// shouldRetry says whether an error may pass: the service's own trouble, and all trouble on the way to it.
func shouldRetry(err error) bool {
	var refused oss.ServiceError
	var body remote.BodyError
	switch {
	case err == nil, errors.As(err, &body), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &refused):
		switch refused.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests:
			return true
		case http.StatusNotImplemented:
			return false
		}
		return refused.StatusCode >= http.StatusInternalServerError || refused.Code == "RequestTimeout"
	}
	return true
}

func codeOf(err error) string {
	var refused oss.ServiceError
	errors.As(err, &refused)
	return refused.Code
}

// explain maps an error of the service to what callers branch on. permission is what the operation needs.
func (s *Store) explain(err error, permission string) error {
	var refused oss.ServiceError
	if !errors.As(err, &refused) {
		return err
	}
	switch {
	case refused.Code == "NoSuchBucket":
		return fmt.Errorf("bucket %s does not exist: make it or set --oss-bucket: %w", s.name, err)
	case refused.StatusCode == http.StatusNotFound && (refused.Code == "NoSuchKey" || refused.Code == ""):
		return os.ErrNotExist
	case refused.Code == "FileAlreadyExists":
		return os.ErrExist
	case refused.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: grant %s on bucket %s: %w", blob.ErrPermission, permission, s.name, err)
	case refused.StatusCode == http.StatusTooManyRequests, refused.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	}
	return err
}
