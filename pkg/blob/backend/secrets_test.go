package backend

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestSecretsAreToldNobody: neither the log at its finest level nor errors hold a secret, whether it came by flag or by
// environment, and whatever the server answers.
func TestSecretsAreToldNobody(t *testing.T) {
	const secret = "c2VjcmV0LW9mLXRoZS10ZXN0Cg==" // base64, as Azure's keys are
	const away = 0                                // no server listens
	token := filepath.Join(t.TempDir(), "token")
	must.OK(t, os.WriteFile(token, []byte(secret), 0o600))
	for name, tc := range map[string]struct{ args, env []string }{
		"oss role": {[]string{"--storage-backend=aliyunoss", "--oss-endpoint=URL", "--oss-bucket=bucket",
			"--oss-role-arn=role", "--oss-oidc-provider-arn=provider", "--oss-oidc-token-file=" + token,
			"--oss-sts-endpoint=URL"}, nil},
		"gcs": {[]string{"--storage-backend=gcs", "--gcs-endpoint=URL/?upload_id=" + secret,
			"--gcs-bucket=bucket"}, nil},
		"s3": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-endpoint=URL", "--s3-force-path-style",
			"--s3-access-key-id=id", "--s3-secret-access-key=" + secret, "--s3-session-token=" + secret}, nil},
		"s3 by env": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-endpoint=URL", "--s3-force-path-style"},
			[]string{"AWS_S3ID=id", "AWS_S3SECRET=" + secret, "AWS_S3TOKEN=" + secret}},
		"azure key": {[]string{"--storage-backend=azureblob", "--azure-container=b", "--azure-account-url=URL/account",
			"--azure-account=account", "--azure-account-key=" + secret}, nil},
		"azure text": {[]string{"--storage-backend=azureblob", "--azure-container=b"},
			[]string{"AZURE_STORAGE_CONNECTION_STRING=DefaultEndpointsProtocol=http;AccountName=account;AccountKey=" +
				secret + ";BlobEndpoint=URL/account;"}},
		"azure sas": {[]string{"--storage-backend=azureblob", "--azure-container=b",
			"--azure-account-url=URL/account?sp=cl&sv=2024-11-04&sig=" + secret}, nil},
		"oss": {[]string{"--storage-backend=aliyunoss", "--oss-endpoint=URL", "--oss-bucket=bucket",
			"--oss-access-key-id=id", "--oss-access-key-secret=" + secret}, nil},
	} {
		for _, status := range []int{away, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest,
			http.StatusTemporaryRedirect} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					// Such as a proxy that shows what it was asked.
					w.Header().Set("Location", "http://127.0.0.1:1"+r.URL.String())
					w.Header().Set("Content-Type", "application/xml")
					w.WriteHeader(status)
					sent, _ := httputil.DumpRequest(r, true)
					_, _ = fmt.Fprintf(w, "<Error><Code>Odd</Code><Message>%s</Message></Error>",
						html.EscapeString(string(sent)))
				}))
				defer server.Close()
				if status == away {
					server.Close()
				}
				at := func(settings []string) (filled []string) {
					for _, s := range settings {
						filled = append(filled, strings.ReplaceAll(s, "URL", server.URL))
					}
					return filled
				}
				c := must.Get(load(t, append(at(tc.args), "--storage-timeout=1s"), at(tc.env)))(t)
				var told bytes.Buffer
				log := logrus.New()
				log.SetOutput(&told)
				log.SetLevel(logrus.TraceLevel)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				s := must.Get(Open(ctx, c, log))(t)
				patience := time.Second
				if name == "azure sas" && status == away {
					patience = 10 * time.Second // its last attempt's error tells the URL
				}
				ctx, cancel = context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, statErr := s.Stat(ctx, "key")
				var listErr error
				for _, err := range s.List(ctx, "", blob.ListOptions{}) {
					listErr = err
				}
				fmt.Fprintln(&told, statErr, listErr, s.Create(ctx, "key", strings.NewReader("x")),
					s.Delete(ctx, "key"))
				for _, spelled := range []string{secret, strings.ReplaceAll(secret, "=", "%3D"),
					strings.ReplaceAll(secret, "=", "%253D")} {
					says.True(t, !strings.Contains(told.String(), spelled), "the secret is told: %s", told.String())
				}
			})
		}
	}
}
