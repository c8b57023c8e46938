package aliyunoss

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// sendWithRetries sends a request, and repeats it after errors that may pass, which the SDK does not. request must pass
// on the options that it gets. If the bucket is missing and may be made, sendWithRetries makes it and sends the request
// again. permission names what the request needs, for the error's text.
func (s *Store) sendWithRetries(ctx context.Context, permission string,
	request func(options ...oss.Option) error) error {
	var header http.Header
	attempt := func() error {
		header = nil
		return request(oss.WithContext(ctx), oss.GetResponseHeader(&header))
	}
	err := remote.Retry(ctx, attempt, shouldRetry)
	if s.createBucket && codeOf(err) == "NoSuchBucket" {
		if err := s.makeBucket(ctx); err != nil {
			return err
		}
		err = remote.Retry(ctx, attempt, shouldRetry)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.mapError(err, header, permission)
}

// makeBucket creates the bucket, unless another process just did.
func (s *Store) makeBucket(ctx context.Context) error {
	err := remote.Retry(ctx, func() error { return s.client.CreateBucket(s.name, oss.WithContext(ctx)) }, shouldRetry)
	switch {
	case err == nil:
		s.log.WithField("bucket", s.name).Info("created the bucket")
	case codeOf(err) == "BucketAlreadyExists": // by another process, just now
	default:
		return fmt.Errorf("bucket %s does not exist; create it: %w", s.name, s.mapError(err, nil, "oss:PutBucket"))
	}
	return nil
}

// shouldRetry says whether another attempt may succeed: after errors of the service itself and of the network.
func shouldRetry(err error) bool {
	status := statusOf(err)
	switch {
	case err == nil, errors.Is(err, errNotOSS), remote.Credentials(err) != nil, errors.As(err, new(remote.BodyError)),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false // what is wrong is not the answer
	case status == 0, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return true // there was no answer, or it says so
	case status == http.StatusNotImplemented, status == http.StatusForbidden,
		status == http.StatusRequestEntityTooLarge, status == http.StatusRequestURITooLong:
		return false
	case !errors.As(err, new(oss.ServiceError)):
		return true // the answer was cut short, or came from a proxy: what the service says is not known yet
	}
	return status >= http.StatusInternalServerError || codeOf(err) == "RequestTimeout"
}

// statusOfOther matches the SDK's error for an answer without an error of the service in its body, as a proxy's
// (oss/conn.go). It has no type, only its text has the status.
var statusOfOther = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^oss: service returned invalid response body, status = (\d{3}) `)
})

// statusOf is the HTTP status in an error; 0 if there is none.
func statusOf(err error) int {
	if refused, ok := errors.AsType[oss.ServiceError](err); ok {
		return refused.StatusCode
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if found := statusOfOther().FindStringSubmatch(err.Error()); found != nil {
			status, _ := strconv.Atoi(found[1])
			return status
		}
	}
	return 0
}

func codeOf(err error) string {
	refused, _ := errors.AsType[oss.ServiceError](err)
	return refused.Code
}

// mapError maps an error to those of package blob. permission is what the operation needs, header that of the answer.
func (s *Store) mapError(err error, header http.Header, permission string) error {
	if missing := remote.Credentials(err); missing != nil {
		return missing
	}
	code, status := codeOf(err), statusOf(err)
	ofService := errors.As(err, new(oss.ServiceError)) // and not of a proxy before it
	switch {
	case err == nil:
		return nil
	case status == 0:
		return remote.Unanswered(err, "oss-endpoint")
	case code == "NoSuchBucket":
		return remote.NoBucket(err, "bucket "+s.name, "oss-bucket")
	case status == http.StatusNotFound && ofService && (code == "NoSuchKey" || code == ""):
		return os.ErrNotExist
	case code == "FileAlreadyExists":
		return os.ErrExist
	case status == http.StatusForbidden, code == immutable:
		return s.refusal(err, header, permission)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && ofService:
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case status == http.StatusRequestEntityTooLarge, code == "EntityTooLarge":
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case status == http.StatusRequestURITooLong, code == "InvalidObjectName":
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return err
}

// immutable is the code for an object that a retention policy keeps, with the status 409.
const immutable = "FileImmutable"

// serverTime is in the answer to a request whose time is wrong.
var serverTime = regexp.MustCompile(`<ServerTime>([^<]{1,40})</ServerTime>`)

// refusal returns the error for a request that the service does not allow, by its cause
// (alibabacloud.com/help/oss/support/error-codes). permission is what the operation needs.
func (s *Store) refusal(err error, header http.Header, permission string) error {
	refused, _ := errors.AsType[oss.ServiceError](err)
	if found := serverTime.FindStringSubmatch(refused.RawMessage); found != nil {
		if at, err := time.Parse(time.RFC3339, found[1]); err == nil {
			header = http.Header{"Date": {at.UTC().Format(http.TimeFormat)}} // where package remote looks for it
		}
	}
	lower := strings.ToLower(refused.Message)
	switch refused.Code {
	case "RequestTimeTooSkewed", "RequestExpired":
		return remote.WrongClock(err, header)
	case "SignatureDoesNotMatch":
		return remote.RefusedOrWrongClock(err, header,
			"the secret does not belong to the access key, or --oss-endpoint or --oss-region is wrong: correct them")
	case "InvalidAccessKeyId":
		return remote.RefusedOrWrongClock(err, header,
			"the store does not know the access key, or it is disabled: correct it")
	case "SecurityTokenExpired", "InvalidSecurityToken":
		return remote.RefusedOrWrongClock(err, header,
			"the security token is wrong or has expired: renew the credentials")
	case immutable:
		return remote.Locked(err, "bucket "+s.name)
	case "InvalidObjectState":
		return remote.Archived(err)
	case "UserDisable", "InvalidPayer":
		return remote.Refused(err, "the account of bucket %s is not in order, as with bills that are not paid: ask "+
			"its owner", s.name)
	case "KmsServiceNotEnabled":
		return remote.Refused(err, "KMS, which encrypts bucket %s, is not activated: activate it", s.name)
	}
	switch {
	case strings.Contains(lower, "must be addressed using the specified endpoint"):
		return remote.Refused(err, "bucket %s is in another region: correct --oss-endpoint", s.name)
	case strings.Contains(lower, "kms"):
		return remote.Refused(err, "grant %s on the KMS key of bucket %s",
			remote.KeyRight(refused.Message, "kms:GenerateDataKey and kms:Decrypt"), s.name)
	case strings.Contains(lower, "request has expired"):
		return remote.WrongClock(err, header)
	}
	return remote.RefusedOrWrongClock(err, header, "grant %s on bucket %s", permission, s.name)
}
