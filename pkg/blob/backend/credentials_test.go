package backend

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestMissingCredentials: where there are no credentials, or whoever gives them refuses, the error says that first,
// once and in a line, and what to set; it asks for no permission of the store, which was not even asked.
func TestMissingCredentials(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"error":"unauthorized_client","error_description":"no such account"}`)
	}))
	defer refusing.Close()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG"} {
		t.Setenv(name, filepath.Join(dir, "none"))
	}
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", refusing.URL)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(refusing.URL, "http://"))
	t.Setenv("PATH", dir)
	token := filepath.Join(dir, "token")
	must.OK(t, os.WriteFile(token, []byte("a token"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string // of the SDK
		want string            // in the error
	}{
		"s3": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1",
			"--s3-endpoint=" + refusing.URL}, nil, "--s3-access-key-id"},
		"s3, role": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1"},
			map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::1:role/a", "AWS_WEB_IDENTITY_TOKEN_FILE": token,
				"AWS_ENDPOINT_URL_STS": refusing.URL}, "--s3-access-key-id"},
		"gcs": {[]string{"--storage-backend=gcs", "--gcs-bucket=b", "--gcs-endpoint=https://127.0.0.1:1"}, nil,
			"--gcs-credentials-file"},
		"azure": {[]string{"--storage-backend=azureblob", "--azure-container=c",
			"--azure-account-url=https://127.0.0.1:1/a"},
			map[string]string{"IDENTITY_ENDPOINT": refusing.URL, "IDENTITY_HEADER": "x"}, "--azure-account-key"},
		"oss, none": {[]string{"--storage-backend=aliyunoss", "--oss-bucket=bucket", "--oss-region=cn-hangzhou"}, nil,
			"--oss-access-key-id"},
		"oss, role": {[]string{"--storage-backend=aliyunoss", "--oss-bucket=bucket", "--oss-region=cn-hangzhou",
			"--oss-role-arn=role", "--oss-oidc-provider-arn=provider", "--oss-oidc-token-file=" + token,
			"--oss-sts-endpoint=" + refusing.URL}, nil, "--oss-role-arn"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			c, err := load(t, tc.args, nil)
			must.OK(t, err)
			var told bytes.Buffer
			log := logrus.New()
			log.SetOutput(&told)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			s, err := Open(ctx, c, log)
			if err == nil {
				for _, err = range s.List(ctx, "log/", blob.ListOptions{}) {
					break
				}
			}
			if err == nil {
				t.Fatal("there are no credentials, and no error")
			}
			text := err.Error()
			at := strings.Index(text, "no credentials")
			if at < 0 || at > 40 || strings.Count(text, "no credentials") > 1 || !strings.Contains(text, tc.want) ||
				strings.Contains(text, "grant ") || strings.ContainsAny(text, "\n\t") {
				t.Errorf("want \"no credentials\" first, and %s: %s", tc.want, text)
			}
		})
	}
}
