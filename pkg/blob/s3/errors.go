package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// mapError turns an error of the service into the errors of package blob. permission names what the operation needs,
// for the error's text. If the service does not know the access key, it is read anew for the next request.
func (s *Store) mapError(err error, permission string) error {
	if err == nil {
		return nil
	}
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	code, message, status := codeOf(err), "", statusOf(err)
	if apiErr, ok := errors.AsType[smithy.APIError](err); ok {
		message = apiErr.ErrorMessage()
	}
	var header http.Header
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.Response != nil &&
		response.Response.Response != nil {
		header = response.Response.Header
	}
	if refused := s.refusal(err, status, code, message, header, permission); refused != nil {
		return refused
	}
	switch {
	case code == noSuchBucket:
		return remote.NoBucket(err, "bucket "+s.bucket, "s3-bucket")
	case status == http.StatusNotFound && (code == noSuchKey || code == "NotFound"):
		return os.ErrNotExist
	case status == http.StatusPreconditionFailed:
		return os.ErrExist
	case status == http.StatusRequestEntityTooLarge || code == "EntityTooLarge":
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case status == http.StatusTooManyRequests || isThrottle(err, status, message):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case status == http.StatusRequestURITooLong || refusesObjectKey(code):
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return remote.Unanswered(err, "s3-endpoint") // err itself if there was an answer
}

const noSuchBucket, noSuchKey = "NoSuchBucket", "NoSuchKey"

// codeOf is the service's code of an error, "" if there is none.
func codeOf(err error) string {
	if apiErr, ok := errors.AsType[smithy.APIError](err); ok {
		return apiErr.ErrorCode()
	}
	return ""
}

// refusesObjectKey says whether an error's code is about the object's key alone, at Amazon or at servers that speak its
// protocol.
func refusesObjectKey(code string) bool {
	switch code {
	case "KeyTooLongError", "InvalidURI", "InvalidObjectName", "XMinioInvalidObjectName", "XMinioParentIsObject",
		"XMinioObjectExistsAsDirectory", "ObjectParentIsFile", "ExistingObjectIsDirectory":
		return true
	}
	return false
}

// isThrottle says whether the store asks for fewer requests, by its code or by the status 503. That status alone, of
// which the SDK makes the message, is a proxy's: it may be about the size of this body, as when the store behind it
// breaks the connection.
func isThrottle(err error, status int, message string) bool {
	return retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err).Bool() ||
		status == http.StatusServiceUnavailable && codeOf(err) != "" && message != http.StatusText(status)
}

// makeBucketIfMissing runs an operation. If that fails because the bucket is missing, and s.createBucket is set, it
// makes the bucket and runs the operation again.
func (s *Store) makeBucketIfMissing(ctx context.Context, operation func() error) error {
	err := operation()
	if !s.createBucket || codeOf(err) != noSuchBucket {
		return err
	}
	input := &awss3.CreateBucketInput{Bucket: &s.bucket}
	if s.region != defaultRegion { // which must not be named
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(s.region)}
	}
	_, createErr := s.client.CreateBucket(ctx, input)
	switch {
	case createErr == nil:
		s.log.WithField("bucket", s.bucket).Info("created the bucket")
	case errors.As(createErr, new(*types.BucketAlreadyOwnedByYou)): // by another process, just now
	default:
		return fmt.Errorf("%w; create it: %w", err, s.mapError(createErr, "s3:CreateBucket"))
	}
	return operation()
}

// refusal returns the error for a request that Amazon, or a server that speaks its protocol, does not allow, by its
// cause (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html); nil if the request failed for another reason.
// permission names what the operation needs. Answers to HEAD have a status only, so 403 without a code may have any of
// these causes: it is taken for a missing permission.
func (s *Store) refusal(err error, status int, code, message string, header http.Header, permission string) error {
	switch code {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		return remote.WrongClock(err, header)
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		return remote.RefusedOrWrongClock(err, header,
			"the secret key does not belong to the access key, or --s3-endpoint or --s3-region is wrong: correct them")
	case "AuthorizationHeaderMalformed", "IncorrectEndpoint", "IllegalLocationConstraintException", "PermanentRedirect":
		region := header.Get("X-Amz-Bucket-Region")
		if region != "" && region != s.region {
			return remote.Refused(err, "bucket %s is in region %s: set --s3-region=%[2]s, and an --s3-endpoint of that "+
				"region if there is one", s.bucket, region)
		}
		return remote.Refused(err, "bucket %s is in another region or behind another address: correct --s3-region or "+
			"--s3-endpoint", s.bucket)
	case "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidSecurity":
		return s.refusedKey(err, header, "the store does not know the access key: correct it, or --s3-endpoint")
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return s.refusedKey(err, header, "the credentials have expired: renew them")
	case "InvalidToken", "InvalidTokenId":
		return s.refusedKey(err, header, "the session token does not belong to the access key: set both anew")
	case "InvalidObjectState":
		return remote.Archived(err)
	case "AccountProblem", "AllAccessDisabled", "NotSignedUp", "InvalidPayer", "UserSuspended":
		return remote.Refused(err, "the account of bucket %s is not in order: ask its owner", s.bucket)
	case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded":
		return remote.Refused(err, "the quota of bucket %s is used up: raise it, or remove sessions", s.bucket)
	}
	switch lower := strings.ToLower(message); {
	case strings.HasPrefix(code, "KMS."):
		return remote.Refused(err, "the KMS key of bucket %s cannot be used: enable it, or choose another one",
			s.bucket)
	case strings.Contains(lower, "protected by object lock"), strings.Contains(lower, "worm protected"):
		return remote.Locked(err, "bucket "+s.bucket)
	case status == http.StatusUnauthorized:
		return remote.RefusedOrWrongClock(err, header,
			"the store, or a proxy before it, does not accept the credentials: correct them, or --s3-endpoint")
	case status != http.StatusForbidden && code != "AccessDenied":
		return nil
	case strings.Contains(lower, "kms:") || strings.Contains(lower, "kms key"):
		return remote.Refused(err, "grant %s on the KMS key of bucket %s",
			remote.KeyRight(message, "kms:GenerateDataKey and kms:Decrypt"), s.bucket)
	case strings.Contains(lower, "request has expired"):
		return remote.WrongClock(err, header)
	case strings.Contains(lower, "explicit deny"):
		return remote.Refused(err, "a policy denies %s on bucket %s: change it, or send the headers that it "+
			"demands (--s3-headers)", permission, s.bucket)
	}
	return remote.RefusedOrWrongClock(err, header, "grant %s on bucket %s", permission, s.bucket)
}

// refusedKey returns the error for a request whose access key the store refuses: others may be taken, so they are read
// anew. A signature that does not match is no such error: the store knows its key, and some servers answer so to single
// odd names of objects.
func (s *Store) refusedKey(err error, header http.Header, advice string) error {
	s.renewThrottle.Do(s.renewCredentials)
	return remote.RefusedOrWrongClock(err, header, "%s", advice)
}
