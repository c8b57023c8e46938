package gcs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestAdviceByCause: what to do after a refusal depends on its cause, not on its status.
func TestAdviceByCause(t *testing.T) {
	for name, test := range map[string]struct {
		status          int
		reason, message string
		clock           time.Duration
		want            string
	}{
		"a right": {403, "forbidden",
			"x@y.iam.gserviceaccount.com does not have storage.objects.list access to the Google Cloud Storage bucket.",
			0, "grant storage.objects.list on bucket b"},
		"credentials": {401, "authError", "Invalid Credentials", 0, "the credentials are not valid or have expired"},
		"a clock":     {401, "authError", "Invalid Credentials", -2 * time.Hour, "ahead of the store's"},
		"nobody": {401, "required", "Anonymous caller does not have storage.objects.list access to the bucket.",
			0, "the request has no credentials"},
		"KMS": {403, "forbidden",
			"Permission 'cloudkms.cryptoKeyVersions.useToDecrypt' denied on Cloud KMS key. Please ensure that your Cloud Storage service account has been authorized", 0, "grant cloudkms.cryptoKeyVersions.useToDecrypt on the Cloud KMS key of bucket b"},
		"a perimeter": {403, "forbidden",
			"Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: x", 0,
			"VPC Service Controls"},
		"billing": {403, "accountDisabled",
			"The project to be billed is associated with a closed billing account.", 0, "billing"},
		"retention": {403, "retentionPolicyNotMet",
			"Object 'b/x' is subject to bucket's retention policy or object retention and cannot be deleted or overwritten until 2027-01-01T00:00:00Z",
			0, "a retention policy, lock or hold of bucket b keeps the object"},
		"retention, without a reason": {403, "forbidden",
			"Object 'b/x' is subject to bucket's retention policy and cannot be deleted, overwritten or archived until 2027-01-01T00:00:00Z",
			0, "a retention policy, lock or hold of bucket b keeps the object"},
		"a hold, without a reason": {403, "forbidden",
			"Object 'b/x' is under active Temporary hold and cannot be deleted, overwritten or archived until hold is removed.",
			0, "a retention policy, lock or hold of bucket b keeps the object"},
		"requesters pay": {400, "required", "Bucket is requester pays bucket but no user project provided.", 0,
			"set --gcs-user-project"},
		"a server clock": {403, "RequestTimeTooSkewed", "RequestTimeTooSkewed", time.Hour, "behind the store's"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(test.clock).UTC().Format(http.TimeFormat))
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"reason":%q,"message":%q}]}}`, test.status,
					test.message, test.reason, test.message)
			})
			got := blobtest.Advice(t, blobtest.Listed(t, s))
			says.True(t, strings.Contains(got, test.want), "%q, want %q", got, test.want)
		})
	}
}

// TestRequesterPaysWhenRead: errors of reading an object are XML, which the SDK does not take apart.
func TestRequesterPaysWhenRead(t *testing.T) {
	s := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>UserProjectMissing</Code>"+
			"<Message>Bucket is a requester pays bucket but no user project provided.</Message></Error>")
	})
	_, err := s.Get(t.Context(), "a", 0, blob.ToEnd)
	says.Error(t, err, "set --gcs-user-project")
}

// TestTokenOfAWrongClock: a machine whose clock is wrong gets no token, so it sends no request.
func TestTokenOfAWrongClock(t *testing.T) {
	err := fmt.Errorf("get token: %w", &oauth2.RetrieveError{
		Response: &http.Response{Header: http.Header{
			"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}}, ErrorCode: "invalid_grant",
		ErrorDescription: "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.",
	})
	s := &Store{name: "b"}
	for _, err := range []error{err,
		errors.New("auth: cannot fetch token: 400: Invalid JWT: Token must be a short-lived token and in a reasonable timeframe")} {
		got := s.mapError(err, "x")
		says.True(t, errors.Is(got, blob.ErrPermission) && strings.Contains(got.Error(), "the clock of this machine"),
			got)
	}
	if got := s.mapError(errors.New("other"), "x"); errors.Is(got, blob.ErrPermission) {
		t.Error(got)
	}
}

// TestThrottled: which errors ask for fewer requests.
func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		err  googleapi.Error
		want bool
	}{
		"a rate":         {googleapi.Error{Code: 429}, true},
		"overloaded":     {googleapi.Error{Code: 503, Message: "We encountered an internal error."}, true},
		"a proxy's page": {googleapi.Error{Code: 503, Body: "upstream connect error"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Store{}).mapError(&test.err, "x")
			says.True(t, errors.Is(got, blob.ErrThrottled) == test.want, "%v, want throttled: %t", got, test.want)
		})
	}
}
