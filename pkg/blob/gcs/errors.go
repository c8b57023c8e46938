package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

func shouldRetry(err error) bool {
	if remote.Credentials(err) != nil {
		return false
	}
	var netErr net.Error
	return storage.ShouldRetry(err) || (errors.As(err, &netErr) && netErr.Timeout() &&
		!errors.Is(err, context.DeadlineExceeded))
}

// mapError turns an error of the service into the errors of package blob. permission is what the operation needs.
func (s *Store) mapError(err error, permission string) error {
	if err == nil {
		return nil
	}
	if refused := tokenRefusal(err); refused != nil {
		return refused
	}
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	var apiErr *googleapi.Error
	errors.As(err, &apiErr)
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return os.ErrNotExist
	case s.isNoBucket(err):
		return fmt.Errorf("bucket %s does not exist: create it, let --storage-create-bucket create it, or correct "+
			"--gcs-bucket: %w", s.name, err)
	case apiErr == nil:
		return err
	case isRate(apiErr):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case apiErr.Code == http.StatusPreconditionFailed:
		return os.ErrExist
	case apiErr.Code == http.StatusUnauthorized, apiErr.Code == http.StatusForbidden:
		return s.refusal(err, apiErr, permission)
	case apiErr.Code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case apiErr.Code == http.StatusRequestURITooLong:
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return err
}

// isNoBucket says whether a listing or a write failed because the bucket is missing.
func (s *Store) isNoBucket(err error) bool {
	var apiErr *googleapi.Error
	notFound := errors.As(err, &apiErr) && apiErr.Code == http.StatusNotFound
	return errors.Is(err, storage.ErrBucketNotExist) || notFound && !errors.Is(err, storage.ErrObjectNotExist)
}

// do runs an operation and repeats it if its answer is broken: the SDK repeats requests, but not if it cannot read the
// answer. If the bucket is missing and may be made, do makes it and runs the operation again.
func (s *Store) do(ctx context.Context, permission string, operation func() error) error {
	attempt := func() remote.Outcome {
		err := operation()
		return remote.Outcome{Err: err, Retry: isBroken(err)}
	}
	err := remote.Retry(ctx, attempt)
	if s.createBucket && s.isNoBucket(err) {
		if err := s.makeBucket(ctx); err != nil {
			return err
		}
		err = remote.Retry(ctx, attempt)
	}
	return s.mapError(err, permission)
}

// isBroken says whether an answer was incomplete, or an upload must start over.
func isBroken(err error) bool {
	var body remote.BodyError
	var netErr net.Error
	var syntax *json.SyntaxError
	var upload uploadError
	var request *url.Error
	if errors.As(err, &request) && shouldRetry(request) {
		return false // there was no answer: the SDK has repeated the request
	}
	if err == nil || remote.Credentials(err) != nil || errors.As(err, &body) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) || errors.As(err, &syntax) ||
		errors.As(err, &upload)
}

func (s *Store) makeBucket(ctx context.Context) error {
	err := remote.Retry(ctx, func() remote.Outcome {
		err := s.bucket.Create(ctx, s.project, nil)
		return remote.Outcome{Err: err, Retry: isBroken(err)}
	})
	var apiErr *googleapi.Error
	switch {
	case err == nil:
		s.log.WithField("bucket", s.name).Info("created the bucket")
		return nil
	case errors.As(err, &apiErr) && apiErr.Code == http.StatusConflict: // by another process, just now
		return nil
	case s.project == "":
		return fmt.Errorf("bucket %s does not exist; create it: %w: set --gcs-project", s.name, err)
	}
	return fmt.Errorf("bucket %s does not exist; create it: %w", s.name, s.mapError(err, "storage.buckets.create"))
}
