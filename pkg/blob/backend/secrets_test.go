package backend

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestSecretsAreToldNobody: neither the log at its finest level nor errors hold a secret, whether it came by flag or by environment, and
// whatever the server answers.
func TestSecretsAreToldNobody(t *testing.T) {
	const secret = "c2VjcmV0LW9mLXRoZS10ZXN0Cg==" // base64, as Azure's keys are
	for name, tc := range map[string]struct{ args, env []string }{
		"s3":         {[]string{"--storage-backend=s3", "--s3-endpoint=URL", "--s3-force-path-style", "--s3-access-key-id=id", "--s3-secret-access-key=" + secret, "--s3-session-token=" + secret}, nil},
		"s3 by env":  {[]string{"--storage-backend=s3", "--s3-endpoint=URL", "--s3-force-path-style"}, []string{"AWS_S3ID=id", "AWS_S3SECRET=" + secret, "AWS_S3TOKEN=" + secret}},
		"azure key":  {[]string{"--storage-backend=azureblob", "--azure-account-url=URL/account", "--azure-account=account", "--azure-account-key=" + secret}, nil},
		"azure text": {[]string{"--storage-backend=azureblob"}, []string{"AZURE_STORAGE_CONNECTION_STRING=DefaultEndpointsProtocol=http;AccountName=account;AccountKey=" + secret + ";BlobEndpoint=URL/account;"}},
		"azure sas":  {[]string{"--storage-backend=azureblob", "--azure-account-url=URL/account?sp=cl&sv=2024-11-04&sig=" + secret}, nil},
		"oss":        {[]string{"--storage-backend=aliyunoss", "--oss-endpoint=URL", "--oss-bucket=bucket", "--oss-access-key-id=id", "--oss-access-key-secret=" + secret}, nil},
	} {
		for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
				defer server.Close()
				at := func(settings []string) (filled []string) {
					for _, s := range settings {
						filled = append(filled, strings.ReplaceAll(s, "URL", server.URL))
					}
					return filled
				}
				c, err := load(t, append(at(tc.args), "--storage-timeout=1s"), at(tc.env))
				if err != nil {
					t.Fatal(err)
				}
				var told bytes.Buffer
				log := logrus.New()
				log.SetOutput(&told)
				log.SetLevel(logrus.TraceLevel)
				s, err := Open(t.Context(), c, log)
				if err != nil {
					t.Fatal(err)
				}
				_, statErr := s.Stat(t.Context(), "key")
				var listErr error
				for _, err := range s.List(t.Context(), "", blob.ListOptions{}) {
					listErr = err
				}
				fmt.Fprintln(&told, statErr, listErr, s.Create(t.Context(), "key", strings.NewReader("x")), s.Delete(t.Context(), "key"))
				for _, spelled := range []string{secret, strings.ReplaceAll(secret, "=", "%3D")} {
					if strings.Contains(told.String(), spelled) {
						t.Errorf("the secret is told: %s", told.String())
					}
				}
			})
		}
	}
}
