package azureblob

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// key is base64, as account keys are.
const key = "aHVzaA=="

func TestConfig(t *testing.T) {
	const connection = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=" + key +
		";BlobEndpoint=http://127.0.0.1:1/a;"
	for name, test := range map[string]struct {
		config Config
		url    string // of the container
		err    string
	}{
		"connection string": {Config{Container: "c", ConnectionString: connection}, "http://127.0.0.1:1/a/c", ""},
		"by account and key": {Config{Container: "c", Account: "a", AccountKey: key},
			"https://a.blob.core.windows.net/c", ""},
		"by URL and key": {Config{Container: "c", Account: "a", AccountKey: key,
			AccountURL: "http://127.0.0.1:1/a/"}, "http://127.0.0.1:1/a/c", ""},
		"signed URL": {Config{Container: "c", AccountURL: "https://a.example.com/?sv=1&sig=2"},
			"https://a.example.com/c?sv=1&sig=2", ""},
		"default credentials": {Config{Container: "c", AccountURL: "https://a.example.com"}, "https://a.example.com/c",
			""},
		"KubeRay's mode": {Config{Container: "c", AuthMode: "Default", Account: "a"},
			"https://a.blob.core.windows.net/c", ""},
		"no account": {Config{Container: "c"}, "", "--azure-account-url"},
		"no key":     {Config{Container: "c", Account: "a", AuthMode: "account_key"}, "", "--azure-account-key"},
		"bad key":    {Config{Container: "c", Account: "a", AccountKey: "hush!"}, "", "--azure-account-key"},
		"container in the URL": {Config{Container: "c",
			AccountURL: "https://a.blob.core.windows.net/c/?sv=1&sig=hush"}, "", "--azure-account-url"},
		"container in the URL, large letters": {Config{Container: "c",
			AccountURL: "https://A.BLOB.Core.windows.net/c"}, "", "--azure-account-url"},
		"container in the URL of a DNS zone": {Config{Container: "c",
			AccountURL: "https://a.z01.blob.storage.azure.net/c"}, "", "--azure-account-url"},
		"container after the account": {Config{Container: "c", AccountURL: "http://azurite:10000/a/c?sig=hush"}, "",
			"--azure-account-url"},
		"account called as the container": {Config{Container: "c", AccountURL: "http://azurite:10000/c/"},
			"http://azurite:10000/c/c", ""},
		"bad URL":    {Config{Container: "c", AccountURL: "hush"}, "", "--azure-account-url"},
		"bad string": {Config{Container: "c", ConnectionString: "hush"}, "", "--azure-connection-string"},
		"no string": {Config{Container: "c", Account: "a", AuthMode: "connection_string"}, "",
			"--azure-connection-string"},
		"unknown mode": {Config{Container: "c", Account: "a", AuthMode: "magic"}, "", `--azure-auth-mode="magic"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(test.config, logrus.New())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hush") {
					t.Errorf("got %v, want an error with %q and no secret", err, test.err)
				}
				return
			}
			must.OK(t, err)
			says.Equal(t, s.client.URL(), test.url, "container at")
		})
	}
}

// at is a driver whose server answers as answer does.
func at(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	return must.Get(Open(Config{Container: "c", Account: "a", AccountKey: key,
		AccountURL: blobtest.Serve(t, answer) + "/a"}, silent.Logger()))(t)
}

// TestAnswersOfOtherServers: a good status without a list, as of another server or a proxy, is no empty container.
func TestAnswersOfOtherServers(t *testing.T) {
	for _, body := range []string{"", "<EnumerationResults/>"} {
		s := at(t, blobtest.Page(body))
		for _, delimited := range []bool{false, true} {
			_, _, err := s.requestPage(t.Context(), "log/", delimited, nil)
			says.True(t, errors.Is(err, errNotAzure), "%q, folders %v: %v", body, delimited, err)
		}
	}
}

// TestUndescribedObjects: what a server does not tell of an object is not taken for 0 bytes or for a time of long ago.
func TestUndescribedObjects(t *testing.T) {
	s := at(t, func(http.ResponseWriter, *http.Request) {})
	o, err := s.Stat(t.Context(), "key")
	says.ErrorIs(t, err, remote.ErrUndescribed, "%+v", o)
}

// TestCreateOnly: those who may create, but not overwrite, are told of an object that is there as of a right that they
// lack, whether it is sent by one request or in parts.
func TestCreateOnly(t *testing.T) {
	s := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ms-error-code", "UnauthorizedBlobOverwrite")
		w.WriteHeader(http.StatusForbidden)
	})
	for _, size := range []int{0, 65 << 20} {
		body := bytes.NewReader(make([]byte, size))
		says.ErrorIs(t, s.Create(t.Context(), "key", body), os.ErrExist, "create with %d bytes", size)
		err := s.Put(t.Context(), "key", body)
		says.True(t, errors.Is(err, blob.ErrPermission) && strings.Contains(err.Error(), "grant "+permissionWrite),
			"put with %d bytes: %v, want the right to write", size, err)
	}
}

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
