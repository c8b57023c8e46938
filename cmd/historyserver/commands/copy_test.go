package commands

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
)

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
		if err := (&copyOptions{to: test.to}).set(fs); err != nil || config.Backend != test.backend ||
			config.S3.Bucket != test.bucket {
			t.Errorf("%q: backend %q, bucket %q, %v", test.to, config.Backend, config.S3.Bucket, err)
		}
	}
}
