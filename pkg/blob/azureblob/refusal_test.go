package azureblob

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
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
		"archived":         {"BlobArchived", 409, 0, "rehydrate it"},
		"locked": {"BlobImmutableDueToPolicy", 409, 0,
			"a retention policy, lock or hold of container c keeps the object"},
		"something unknown": {"Whatever", 403, 0, "grant Microsoft.Storage/"},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(test.clock).UTC().Format(http.TimeFormat))
				w.Header().Set("x-ms-error-code", test.code)
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>words</Message></Error>",
					test.code)
			}))
			defer web.Close()
			s, err := Open(Config{Container: "c", Account: "a", AccountKey: key, AccountURL: web.URL}, logrus.New())
			must.OK(t, err)
			for _, err = range s.List(t.Context(), "", blob.ListOptions{}) {
			}
			_, statErr := s.Stat(t.Context(), "key")
			for _, err := range []error{err, statErr} {
				var refused *blob.AccessError
				if !errors.As(err, &refused) || !errors.Is(err, blob.ErrPermission) ||
					!strings.Contains(strings.Replace(refused.Advice, "59m59s", "1h0m", 1), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
			}
		})
	}
}
