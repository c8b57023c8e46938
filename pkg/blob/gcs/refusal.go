package gcs

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// rateReasons are the reasons of a 403 that asks for fewer requests
// (cloud.google.com/storage/docs/json_api/v1/status-codes).
var rateReasons = []string{"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"}

// isRate says whether an error asks for fewer requests.
func isRate(err *googleapi.Error) bool {
	return err.Code == http.StatusTooManyRequests ||
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

// tokenRefusal returns the error for a token that Google does not give; nil for another error.
func tokenRefusal(err error) error {
	var refused *oauth2.RetrieveError
	var header http.Header
	text := ""
	if errors.As(err, &refused) {
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
