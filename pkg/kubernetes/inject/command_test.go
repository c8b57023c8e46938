package inject

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := NewCommand(nil, func(args, environ []string, complete bool) error {
		if slices.Contains(environ, "S3_REGION=nowhere") && slices.Contains(args, "--storage-backend=s3") && complete {
			return errors.New("no such region")
		}
		return nil
	})
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), errOut.String(), err
}

func TestCommand(t *testing.T) {
	in, err := os.ReadFile("testdata/plain.in.yaml")
	must.OK(t, err)
	want, err := os.ReadFile("testdata/plain.out.yaml")
	must.OK(t, err)
	flags := []string{"--storage-backend=s3", "--env=S3_BUCKET=ray-history"}

	stdout, stderr, err := run(t, string(in), append(flags, "-f", "-")...)
	if err != nil || stdout != string(want) {
		t.Errorf("standard input to output: %v\n%s", err, stdout)
	}
	for _, line := range []string{"RayCluster plain: head: collector as container",
		"RayCluster plain: worker group cpu: collector as container"} {
		if !strings.Contains(stderr, line) {
			t.Errorf("report %q, want %q in it", stderr, line)
		}
	}

	file := filepath.Join(t.TempDir(), "cluster.yaml")
	must.OK(t, os.WriteFile(file, in, 0o600))
	for _, report := range []string{"collector as container", "has its collector already"} {
		stdout, stderr, err = run(t, "", append(flags, "-f", file, "-o", file)...)
		if err != nil || stdout != "" || !strings.Contains(stderr, report) {
			t.Errorf("in place: %v, output %q, report %q, want %q", err, stdout, stderr, report)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("in place: %v\n%s", err, got)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("in place: mode %v, %v", info.Mode(), err)
	}
}

func TestCommandErrors(t *testing.T) {
	tests := map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"no file":    {"", []string{"--storage-backend=s3"}, "-f is not set"},
		"no backend": {"", []string{"-f", "-"}, "--storage-backend is not set"},
		"collector": {"", []string{"-f", "-", "--storage-backend=s3", "--env=S3_REGION=nowhere"},
			"no collector could use these settings: no such region"},
		"missing": {"", []string{"-f", "testdata/none.yaml", "--storage-backend=s3"}, "no such file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := run(t, tt.stdin, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// A file without Ray's objects is passed on, byte by byte: in a pipe of a whole repository's manifests most are.
func TestCommandPassesOn(t *testing.T) {
	for name, in := range map[string]string{
		"service":         "# a\nkind: Service\napiVersion: v1\n---\n\n---\nkind: ConfigMap\n",
		"CRLF":            "kind: Service\r\n---\r\nkind: ConfigMap\r\n",
		"empty":           "",
		"JSON":            `{"kind":"Service",   "apiVersion":"v1"}`,
		"no line end":     "kind: Service",
		"another's group": "kind: RayCluster\napiVersion: example.com/v1\n",
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := run(t, in, "-f", "-", "--storage-backend=s3")
			if err != nil || stdout != in || !strings.Contains(stderr,
				"no RayCluster, RayJob, RayService or RayCronJob in it") {
				t.Errorf("%v, %q, %q", err, stdout, stderr)
			}
		})
	}
}
