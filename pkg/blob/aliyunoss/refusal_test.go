package aliyunoss

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestAdviceByCause: what to do after a refusal depends on its cause, not on its status.
func TestAdviceByCause(t *testing.T) {
	hour := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, test := range map[string]struct{ code, message, more, want string }{
		"a clock": {"RequestTimeTooSkewed",
			"The difference between the request time and the current time is too large.",
			"<ServerTime>" + hour + "</ServerTime>", "ahead of the store's"},
		"a secret": {"SignatureDoesNotMatch", "The request signature we calculated does not match", "",
			"the secret does not belong to the access key"},
		"a key": {"InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.", "",
			"the store does not know the access key"},
		"expired": {"SecurityTokenExpired", "The security token you provided has expired.", "",
			"renew the credentials"},
		"a region": {"AccessDenied", "The bucket you are attempting to access must be addressed using the specified endpoint.", "", "correct --oss-endpoint"},
		"KMS": {"AccessDenied", "You have no right to perform kms:Decrypt", "",
			"grant kms:Decrypt on the KMS key of bucket bucket"},
		"bills":    {"UserDisable", "UserDisable", "", "bills that are not paid"},
		"archived": {"InvalidObjectState", "The operation is not valid for the object's state", "", "restore it"},
		"a right": {"AccessDenied", "You have no right to access this object because of bucket acl.", "",
			"grant oss:ListObjects on bucket bucket"},
		"locked": {immutable, "The object is protected by WORM", "",
			"a retention policy, lock or hold of bucket bucket keeps the object"},
		"old times": {"AccessDenied", "Request has expired.", "", "compare the clock of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				if test.code == immutable {
					w.WriteHeader(http.StatusConflict)
				} else {
					w.WriteHeader(http.StatusForbidden)
				}
				fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message>%s</Error>",
					test.code, test.message, test.more)
			})
			got := blobtest.Advice(t, blobtest.Listed(t, s))
			says.True(t, strings.Contains(got, test.want), "%q, want %q", got, test.want)
		})
	}
}

// TestThrottled: which errors ask for fewer requests.
func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a rate":         {oss.ServiceError{StatusCode: 429}, true},
		"overloaded":     {oss.ServiceError{StatusCode: 503, Code: "UploadTrafficRateLimitExceeded"}, true},
		"a proxy's page": {errors.New("oss: service returned invalid response body, status = 503 Busy, RequestId = "), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Store{}).mapError(test.err, nil, "x")
			says.True(t, errors.Is(got, blob.ErrThrottled) == test.want, "%v, want throttled: %t", got, test.want)
		})
	}
}
