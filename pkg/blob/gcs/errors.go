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
	"slices"
	"strings"

	"cloud.google.com/go/storage"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// shouldRetry reports whether the SDK sends a request again: for what may pass, also a timeout of the network, but not
// one of the caller. Missing credentials do not pass.
func shouldRetry(err error) bool {
	if remote.Credentials(err) != nil {
		return false
	}
	var netErr net.Error
	return storage.ShouldRetry(err) || (errors.As(err, &netErr) && netErr.Timeout() &&
		!errors.Is(err, context.DeadlineExceeded))
}

// mapError maps an error to those of package blob. permission is what the operation needs.
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
	apiErr, _ := errors.AsType[*googleapi.Error](err)
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return os.ErrNotExist
	case s.isNoBucket(err):
		return remote.NoBucket(err, "bucket "+s.name, "gcs-bucket")
	case apiErr == nil:
		return remote.Unanswered(err, "gcs-endpoint")
	case isRate(apiErr):
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	case apiErr.Code == http.StatusPreconditionFailed:
		return os.ErrExist
	case apiErr.Code == http.StatusUnauthorized, apiErr.Code == http.StatusForbidden:
		return s.refusal(err, apiErr, permission)
	case strings.Contains(apiErr.Message+apiErr.Body, "requester pays"): // the body is XML when an object is read
		return remote.Refused(err, "whoever asks bucket %s pays: set --gcs-user-project to the project that does", s.name)
	case apiErr.Code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	case apiErr.Code == http.StatusRequestURITooLong:
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	}
	return err
}

// isNoBucket says whether a listing or a write failed because the bucket is missing.
func (s *Store) isNoBucket(err error) bool {
	return errors.Is(err, storage.ErrBucketNotExist) ||
		statusOf(err) == http.StatusNotFound && !errors.Is(err, storage.ErrObjectNotExist)
}

// runWithRetries runs an operation and repeats it if its answer is broken: the SDK repeats requests, but not if it
// cannot read the answer. If the bucket is missing and may be made, runWithRetries makes it and runs the operation
// again.
func (s *Store) runWithRetries(ctx context.Context, permission string, operation func() error) error {
	err := remote.Retry(ctx, operation, isBroken)
	if s.createBucket && s.isNoBucket(err) {
		if err := s.makeBucket(ctx); err != nil {
			return err
		}
		err = remote.Retry(ctx, operation, isBroken)
	}
	return s.mapError(err, permission)
}

// isBroken says whether an operation may succeed if it is done again, and the SDK has not repeated it: its answer was
// incomplete, or an upload must start over.
func isBroken(err error) bool {
	var request *url.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &request) && shouldRetry(request): // there was no answer: the SDK has repeated the request
		return false
	case remote.Credentials(err) != nil, errors.As(err, new(remote.BodyError)): // sending it again does not help
		return false
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)) ||
		errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(uploadError))
}

// makeBucket creates the bucket, unless another process just did.
func (s *Store) makeBucket(ctx context.Context) error {
	err := remote.Retry(ctx, func() error { return s.bucket.Create(ctx, s.project, nil) }, isBroken)
	switch {
	case err == nil:
		s.log.WithField("bucket", s.name).Info("created the bucket")
		return nil
	case statusOf(err) == http.StatusConflict: // by another process, just now
		return nil
	case s.project == "":
		return fmt.Errorf("bucket %s does not exist; create it: %w: set --gcs-project", s.name, err)
	}
	return fmt.Errorf("bucket %s does not exist; create it: %w", s.name, s.mapError(err, "storage.buckets.create"))
}

// rateReasons are the reasons of a 403 that asks for fewer requests
// (cloud.google.com/storage/docs/json_api/v1/status-codes).
var rateReasons = []string{"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"}

// isRate says whether an error asks for fewer requests. A 503 without words of the service may be a proxy's.
func isRate(err *googleapi.Error) bool {
	return err.Code == http.StatusTooManyRequests || err.Code == http.StatusServiceUnavailable && err.Message != "" ||
		slices.ContainsFunc(err.Errors,
			func(e googleapi.ErrorItem) bool { return slices.Contains(rateReasons, e.Reason) })
}

// refusal returns the error for a request that Google does not allow, by its cause. permission is what the operation
// needs.
func (s *Store) refusal(err error, apiErr *googleapi.Error, permission string) error {
	lower := strings.ToLower(apiErr.Message + " " + apiErr.Body)
	has := func(part string) bool { return strings.Contains(lower, part) }
	switch {
	case has("requesttimetooskewed"):
		return remote.WrongClock(err, apiErr.Header)
	case has("signaturedoesnotmatch"):
		return remote.RefusedOrWrongClock(err, apiErr.Header,
			"the signature is wrong: correct the credentials or --gcs-endpoint")
	case has("retentionpolicynotmet"), has("retention policy"), has("objectunderactivehold"), has("under active"):
		return remote.Locked(err, "bucket "+s.name)
	case has("kms"):
		return remote.Refused(err, "grant %s on the Cloud KMS key of bucket %s to the Cloud Storage service agent of "+
			"its project",
			remote.KeyRight(apiErr.Message, "cloudkms.cryptoKeyVersions.useToEncrypt and .useToDecrypt"), s.name)
	case has("vpcservicecontrols"), has("organization's policy"):
		return remote.Refused(err, "a perimeter of VPC Service Controls or an organization's policy keeps this "+
			"machine from bucket %s: allow it there", s.name)
	case has("accountdisabled"), has("billing"):
		return remote.Refused(err, "the account or the billing of bucket %s's project is not in order: ask its owner",
			s.name)
	case has("anonymous caller"):
		return remote.Refused(err, "the request has no credentials: set --gcs-credentials-file, "+
			"GOOGLE_APPLICATION_CREDENTIALS or workload identity, and grant %s on bucket %s", permission, s.name)
	case apiErr.Code == http.StatusUnauthorized:
		return remote.RefusedOrWrongClock(err, apiErr.Header,
			"the credentials are not valid or have expired: renew them")
	}
	return remote.RefusedOrWrongClock(err, apiErr.Header, "grant %s on bucket %s", permission, s.name)
}

// tokenRefusal returns an error that blames the machine's clock if Google gives no token because of it; nil for any
// other error, and without one.
func tokenRefusal(err error) error {
	var header http.Header
	text := ""
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text = refused.ErrorDescription + string(refused.Body)
		if refused.Response != nil {
			header = refused.Response.Header
		}
	} else if err != nil {
		text = err.Error()
	}
	if strings.Contains(text, "Invalid JWT") && (strings.Contains(text, "timeframe") || strings.Contains(text, "iat")) {
		return remote.WrongClock(err, header)
	}
	return nil
}
