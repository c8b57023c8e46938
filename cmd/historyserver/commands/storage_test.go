package commands

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStorageErrorsAreToldOnce: a command without credentials says so once, in what it returns or in its log, and one
// with a misspelled folder does not make it.
func TestStorageErrorsAreToldOnce(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, filepath.Join(dir, "none"))
	}
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", refusing.URL)
	typo := filepath.Join(dir, "typo")
	for _, args := range [][]string{{"ls"}, {"du"}, {"show", "x"}, {"verify", "--all"}, {"compact", "--all"},
		{"rm", "x/latest"}, {"index", "--all"}, {"export", "x"}} {
		var told bytes.Buffer
		cmd := root()
		cmd.SetArgs(append(args, "--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1"))
		cmd.SetOut(&told)
		cmd.SetErr(&told)
		err := cmd.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%q without credentials: no error", args)
			continue
		}
		told.WriteString(err.Error())
		if n := strings.Count(told.String(), "no credentials"); n != 1 {
			t.Errorf("%q without credentials says so %d times: %s", args, n, told.String())
		}
		if _, err := runCommand(t, append(args, "--local-dir="+typo)...); err == nil ||
			!strings.Contains(err.Error(), typo) {
			t.Errorf("%q with a folder that is not there: %v", args, err)
		}
		if _, err := os.Stat(typo); err == nil {
			t.Fatalf("%q made the folder", args)
		}
	}
}
