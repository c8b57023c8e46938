package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestDoctor: each check has a line; what is not there is a warning, a mistake ends with an error.
func TestDoctor(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"right": {args: []string{"--local-dir=DIR/store", "--ray-auth-token=hush"},
			want: []string{"ok       settings ", "warning  Ray ", "warning  dashboard ", "ok       store: list ",
				"ok       store: write ", "ok       clock ", "ok       store: delete ", " inotify: watches ",
				" inotify: instances ", " space: spool ", "warning  collector "}},
		"mistakes": {args: []string{"--push-interval=0s", "--role=boss"}, err: "2 checks failed",
			want: []string{"failed   settings         --role", "failed   settings         --push-interval"}},
		"no store": {args: []string{"--storage-backend=s3"}, want: []string{"failed   store ", "--s3-bucket"},
			err: "1 check failed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bundle := filepath.Join(dir, "bundle.tar.gz")
			cmd := doctorCommand()
			args := []string{"--ray-cluster-name=lab", "--role=head", "--ray-tmp-dir=" + dir,
				"--metrics-address=127.0.0.1",
				"--metrics-port=1", "--ray-dashboard-address=127.0.0.1:1", "--bundle=" + bundle}
			for _, arg := range tt.args {
				args = append(args, strings.ReplaceAll(arg, "DIR", dir))
			}
			var out strings.Builder
			cmd.SetArgs(args)
			cmd.SetOut(&out)
			err := cmd.Execute()
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, &out)
				}
			}
			if info := must.Get(os.Stat(bundle))(t); info.Mode() != 0o600 || info.Size() == 0 {
				t.Errorf("the bundle: %v", info)
			}
		})
	}
}
