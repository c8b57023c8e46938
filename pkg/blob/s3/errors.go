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
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// mapError turns an error of the service into the errors of package blob. permission is what the operation needs.
func (s *Store) mapError(err error, permission string) error {
	if err == nil {
		return nil
	}
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	code, message, status := "", "", 0
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		code, message = apiErr.ErrorCode(), apiErr.ErrorMessage()
	}
	var response *smithyhttp.ResponseError
	var header http.Header
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
		if response.Response != nil && response.Response.Response != nil {
			header = response.Response.Header
		}
	}
	if refused := s.refusal(err, status, code, message, header, permission); refused != nil {
		return refused
	}
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("bucket %s does not exist: create it, let --storage-create-bucket create it, or correct "+
			"--s3-bucket: %w", s.bucket, err)
	case status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound"):
		return os.ErrNotExist
	case status == http.StatusPreconditionFailed:
		return os.ErrExist
	case status == http.StatusRequestEntityTooLarge || code == "EntityTooLarge":
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case status == http.StatusTooManyRequests || isThrottle(err):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case status == http.StatusRequestURITooLong || refusesKey(code):
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return err
}

// refusesKey says whether an error's code is about the key alone, at Amazon or at servers that speak its protocol.
func refusesKey(code string) bool {
	switch code {
	case "KeyTooLongError", "InvalidURI", "InvalidObjectName", "XMinioInvalidObjectName", "XMinioParentIsObject",
		"XMinioObjectExistsAsDirectory", "ObjectParentIsFile", "ExistingObjectIsDirectory":
		return true
	}
	return false
}

func isThrottle(err error) bool {
	return retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err).Bool()
}

// withBucket runs an operation. If the bucket is missing and may be made, it makes it and runs the operation again.
func (s *Store) withBucket(ctx context.Context, operation func() error) error {
	err := operation()
	var apiErr smithy.APIError
	if !s.createBucket || !errors.As(err, &apiErr) || apiErr.ErrorCode() != "NoSuchBucket" {
		return err
	}
	input := &awss3.CreateBucketInput{Bucket: &s.bucket}
	if s.region != defaultRegion {
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(s.region)}
	}
	_, createErr := s.client.CreateBucket(ctx, input)
	var owned *types.BucketAlreadyOwnedByYou
	switch {
	case createErr == nil:
		s.log.WithField("bucket", s.bucket).Info("created the bucket")
	case errors.As(createErr, &owned): // by another process, just now
	default:
		return fmt.Errorf("%w; create it: %w", err, s.mapError(createErr, "s3:CreateBucket"))
	}
	return operation()
}
