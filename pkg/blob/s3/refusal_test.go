package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestAdviceByCause: what to do after a refusal depends on its cause, not on its status.
func TestAdviceByCause(t *testing.T) {
	for name, test := range map[string]struct {
		code, message string
		status        int
		clock         time.Duration // of the store, against this machine's
		want          string
	}{
		"a clock ahead": {"RequestTimeTooSkewed",
			"The difference between the request time and the current time is too large.", 403, -17 * time.Minute,
			"the clock of this machine is 17m0s ahead of the store's"},
		"a clock behind": {"RequestTimeTooSkewed", "", 403, 26 * time.Hour,
			"the clock of this machine is 26h0m0s behind the store's"},
		"a time, same clock": {"RequestTimeTooSkewed", "", 403, 0, "compare the clock of this machine"},
		"a secret": {"SignatureDoesNotMatch", "The request signature we calculated does not match", 403, 0,
			"the secret key does not belong to the access key, or --s3-endpoint or --s3-region"},
		"a secret and a clock": {"SignatureDoesNotMatch", "", 403, time.Hour,
			"the clock of this machine is 1h0m0s behind"},
		"a region": {"AuthorizationHeaderMalformed",
			"the region 'us-east-1' is wrong; expecting 'eu-west-1'", 400, 0, "correct --s3-region"},
		"a region of a redirect": {"PermanentRedirect", "", 301, 0, "bucket b is in region eu-west-1: set --s3-region"},
		"a key": {"InvalidAccessKeyId",
			"The AWS Access Key Id you provided does not exist in our records.", 403, 0,
			"the store does not know the access key"},
		"expired": {"ExpiredToken", "The provided token has expired.", 400, 0, "the credentials have expired"},
		"a token": {"InvalidToken", "", 400, 0, "the session token does not belong"},
		"KMS, writing": {"AccessDenied",
			"User: arn:aws:sts::1:assumed-role/x is not authorized to perform: kms:GenerateDataKey on resource: arn:aws:kms:eu-west-1:1:key/2", 403, 0, "grant kms:GenerateDataKey on the KMS key of bucket b"},
		"KMS, reading": {"AccessDenied", "not authorized to perform: kms:Decrypt", 403, 0,
			"grant kms:Decrypt on the KMS key"},
		"KMS, off": {"KMS.DisabledException", "", 400, 0, "the KMS key of bucket b cannot be used"},
		"archived": {"InvalidObjectState", "", 403, 0, "restore it"},
		"denied": {"AccessDenied", "with an explicit deny in a resource-based policy", 403, 0,
			"a policy denies s3:ListBucket on bucket b: change it, or send the headers that it demands (--s3-headers)"},
		"locked": {"AccessDenied", "Access Denied because object protected by object lock.", 403, 0,
			"a retention policy, lock or hold of bucket b keeps the object"},
		"locked at MinIO": {"InvalidRequest", "Object is WORM protected and cannot be overwritten", 400, 0,
			"a retention policy, lock or hold of bucket b keeps the object"},
		"no S3 words": {"", "", 401, 0, "does not accept the credentials"},
		"a quota":     {"QuotaExceeded", "", 403, 0, "the quota of bucket b is used up"},
		"a right":     {"AccessDenied", "Access Denied", 403, 0, "grant s3:ListBucket on bucket b"},
		"another 403": {"Whatever", "", 403, 0, "grant s3:ListBucket on bucket b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, "b", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(test.clock).UTC().Format(http.TimeFormat))
				w.Header().Set("Content-Type", "application/xml")
				if test.status == http.StatusMovedPermanently {
					w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
				}
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", test.code, test.message)
			})
			err := blobtest.Listed(t, s)
			got := blobtest.Advice(t, err)
			says.True(t, about(got, test.want), "%q, want %q", got, test.want)
			says.Equal(t, strings.Contains(fmt.Sprint(err), "grant s3:ListBucket"),
				strings.Contains(test.want, "grant s3:ListBucket"), err)
			_, err = s.Stat(t.Context(), "key") // of which the answer has no words
			if test.clock != 0 && test.status == 403 &&
				!strings.Contains(blobtest.Advice(t, err), "the clock of this machine is") {
				t.Errorf("stat: %v", err)
			}
		})
	}
}

// about says whether an advice has the wanted words; a second more or less has passed.
func about(advice, want string) bool {
	return strings.Contains(advice, want) || strings.Contains(want, "m0s") &&
		strings.Contains(advice, "the clock of this machine is") &&
		strings.Contains(advice, "ahead of") == strings.Contains(want, "ahead of")
}

// TestThrottled: which errors ask for fewer requests.
func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		status        int
		code, message string
		want          bool
	}{
		"Amazon":             {503, "SlowDown", "Please reduce your request rate.", true},
		"Amazon, overloaded": {503, "ServiceUnavailable", "Service is unable to handle request.", true},
		"MinIO reads": {503, "SlowDownRead",
			"Resource requested is unreadable, please reduce your request rate", true},
		"MinIO writes": {503, "SlowDownWrite",
			"Resource requested is unwritable, please reduce your request rate", true},
		"Ceph, without a message":  {503, "ServiceUnavailable", "", true},
		"a proxy, of all requests": {429, "TooManyRequests", "Too Many Requests", true},
		"a proxy, of this body":    {503, "ServiceUnavailable", "Service Unavailable", false},
		"a proxy's page":           {503, "", "", false},
		"another status":           {500, "InternalError", "We encountered an internal error.", false},
	} {
		t.Run(name, func(t *testing.T) {
			var err error = errors.New("an answer that is not XML")
			if test.code != "" {
				err = &smithy.GenericAPIError{Code: test.code, Message: test.message}
			}
			err = &smithyhttp.ResponseError{Err: err,
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: test.status}}}
			got := (&Store{}).mapError(err, "s3:PutObject")
			says.True(t, errors.Is(got, blob.ErrThrottled) == test.want, "%v, want throttled: %t", got, test.want)
		})
	}
}
