package azureblob

import (
	"fmt"
	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAdviceByCause: what to do after a refusal depends on its cause, not on its status.
func TestAdviceByCause(t *testing.T) {
	for name, test := range map[string]struct {
		code   string
		status int
		clock  time.Duration
		want   string
	}{
		"a key":            {"AuthenticationFailed", 403, 0, "the account key, signed URL or token is wrong"},
		"a clock ahead":    {"AuthenticationFailed", 403, -time.Hour, "the clock of this machine is 1h0m"},
		"a clock behind":   {"AuthenticationFailed", 403, time.Hour, "behind the store's"},
		"a token":          {"InvalidAuthenticationInfo", 401, 0, "token is wrong"},
		"no credentials":   {"NoAuthenticationInformation", 401, 0, "the request has no credentials"},
		"a role":           {"AuthorizationPermissionMismatch", 403, 0, "grant Microsoft.Storage/"},
		"a network":        {"AuthorizationFailure", 403, 0, "network rules"},
		"keys are off":     {"KeyBasedAuthenticationNotPermitted", 403, 0, "does not allow account keys"},
		"the account":      {"AccountIsDisabled", 403, 0, "the storage account is disabled"},
		"a key in a vault": {"KeyVaultEncryptionKeyNotFound", 403, 0, "Key Vault"},
		"archived":         {"BlobArchived", 409, 0, "restore it"},
		"locked": {"BlobImmutableDueToPolicy", 409, 0,
			"a retention policy, lock or hold of container c keeps the object"},
		"something unknown": {"Whatever", 403, 0, "grant Microsoft.Storage/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(test.clock).UTC().Format(http.TimeFormat))
				w.Header().Set("x-ms-error-code", test.code)
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>words</Message></Error>",
					test.code)
			})
			_, statErr := s.Stat(t.Context(), "key")
			for _, err := range []error{blobtest.Listed(t, s), statErr} {
				got := strings.Replace(blobtest.Advice(t, err), "59m59s", "1h0m", 1)
				says.True(t, strings.Contains(got, test.want), "%q, want %q", got, test.want)
			}
		})
	}
}
