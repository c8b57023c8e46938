package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// explain maps an error of the service to what callers branch on. permission is what the operation needs.
func (s *Store) explain(err error, permission string) error {
	if err == nil {
		return nil
	}
	code, status := "", 0
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		code = apiErr.ErrorCode()
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("bucket %s does not exist: make it or set --s3-bucket: %w", s.bucket, err)
	case status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound"):
		return os.ErrNotExist
	case status == http.StatusPreconditionFailed:
		return os.ErrExist
	case status == http.StatusForbidden || code == "AccessDenied":
		return fmt.Errorf("%w: grant %s on bucket %s: %w", blob.ErrPermission, permission, s.bucket, err)
	case status == http.StatusTooManyRequests || isThrottle(err):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	}
	return err
}

func isThrottle(err error) bool {
	return retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err).Bool()
}

// withBucket runs an operation; where the bucket is missing and may be made, it makes it and runs the operation again.
func (s *Store) withBucket(ctx context.Context, operation func() error) error {
	err := operation()
	var apiErr smithy.APIError
	if !s.createBucket || !errors.As(err, &apiErr) || apiErr.ErrorCode() != "NoSuchBucket" {
		return err
	}
	input := &awss3.CreateBucketInput{Bucket: &s.bucket}
	if s.region != defaultRegion {
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(s.region)}
	}
	_, createErr := s.client.CreateBucket(ctx, input)
	var owned *types.BucketAlreadyOwnedByYou
	switch {
	case createErr == nil:
		s.log.WithField("bucket", s.bucket).Info("made the bucket")
	case errors.As(createErr, &owned): // by another process, just now
	default:
		return fmt.Errorf("%w; making it: %w", err, s.explain(createErr, "s3:CreateBucket"))
	}
	return operation()
}
