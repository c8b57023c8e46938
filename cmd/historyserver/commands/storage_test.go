package commands

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/layout"
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
		n := strings.Count(told.String(), "no credentials")
		says.True(t, n == 1, "%q without credentials says so %d times: %s", args, n, told.String())
		says.Error(t, says.Err(runCommand(t, append(args, "--local-dir="+typo)...)), typo,
			"%q with a folder that is not there", args)
		must.True(t, says.Err(os.Stat(typo)) != nil, "%q made the folder", args)
	}
}

// TestRemovalInTheFuture: an age below zero would remove sessions that are still written.
func TestRemovalInTheFuture(t *testing.T) {
	if _, err := runCommand(t, "rm", "--older-than=-1h", "default/lab/latest",
		"--local-dir="+t.TempDir()); err == nil || !strings.Contains(err.Error(), "--older-than=-1h") {
		t.Error(err)
	}
}

func TestShardOf(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	for _, n := range []int{1, 3, math.MaxUint32 + 1, math.MaxInt} {
		i := shardOf(ref, n)
		says.True(t, i >= 0 && i < n, "shard %d of %d", i, n)
	}
}

// TestTargetOfACopy: in a pod the file of settings describes the source. The target takes nothing from it, unless it is
// named as the target's.
func TestTargetOfACopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	must.OK(t, os.WriteFile(file, []byte(`{"storage-backend": "s3", "s3Bucket": "history", "storage-root-dir": "ray"}`),
		0o600))
	for _, test := range []struct {
		to              []string
		backend, bucket string
	}{
		{[]string{"local-dir=copy"}, "local", ""},
		{[]string{"storage-backend=gcs", "gcs-bucket=copy"}, "gcs", ""},
		{[]string{"storage-backend-config-path=" + file}, "s3", "history"},
		{[]string{"runtime-class-config-path=" + file}, "s3", "history"},
		{[]string{"storage-backend-config-path=" + file, "s3-bucket=copy"}, "s3", "copy"},
	} {
		var config backend.Config
		fs := pflag.NewFlagSet("to", pflag.ContinueOnError)
		config.AddFlags(fs)
		if err := fs.Lookup("storage-backend-config-path").Value.Set(file); err != nil { // as if the default named it
			t.Fatal(err)
		}
		err := (&copyOptions{to: test.to}).setTarget(fs)
		says.True(t, err == nil && config.Backend == test.backend && config.S3.Bucket == test.bucket,
			"%q: backend %q, bucket %q, %v", test.to, config.Backend, config.S3.Bucket, err)
	}
}
