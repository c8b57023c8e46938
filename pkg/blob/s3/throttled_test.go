package s3

import (
	"errors"
	"net/http"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestThrottled: which errors ask for fewer requests.
func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		status        int
		code, message string
		want          bool
	}{
		"Amazon":                   {503, "SlowDown", "Please reduce your request rate.", true},
		"Amazon, overloaded":       {503, "ServiceUnavailable", "Service is unable to handle request.", true},
		"MinIO reads":              {503, "SlowDownRead", "Resource requested is unreadable, please reduce your request rate", true},
		"MinIO writes":             {503, "SlowDownWrite", "Resource requested is unwritable, please reduce your request rate", true},
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
