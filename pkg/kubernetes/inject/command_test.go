package inject

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
	says.True(t, err == nil && stdout == string(want), "standard input to output: %v\n%s", err, stdout)
	says.All(t, stderr, "RayCluster plain: head: collector as container",
		"RayCluster plain: worker group cpu: collector as container")

	file := filepath.Join(t.TempDir(), "cluster.yaml")
	must.OK(t, os.WriteFile(file, in, 0o600))
	for _, report := range []string{"collector as container", "has its collector already"} {
		stdout, stderr, err = run(t, "", append(flags, "-f", file, "-o", file)...)
		says.True(t, err == nil && stdout == "" && strings.Contains(stderr, report),
			"in place: %v, output %q, report %q, want %q", err, stdout, stderr, report)
		got, err := os.ReadFile(file)
		says.True(t, err == nil && string(got) == string(want), "in place: %v\n%s", err, got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("in place: mode %v, %v", info.Mode(), err)
	}
}

func TestCommandErrors(t *testing.T) {
	empty := t.TempDir()
	tests := map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"nothing":      {"", nil, "-f is not set"},
		"no manifests": {"", []string{"-f", empty, "--storage-backend=s3"}, "there are no .yaml"},
		"diff and file": {"", []string{"-f", "testdata/plain.in.yaml", "--storage-backend=s3", "--diff", "-o", "x"},
			"--diff contradicts -o"},
		"file into a folder": {"", []string{"-f", "testdata/plain.in.yaml", "--storage-backend=s3", "-o", empty},
			"is a folder"},
		"no folder": {"", []string{"-f", "testdata/plain.in.yaml", "--storage-backend=s3", "-o", "none/x.yaml"},
			"write none/x.yaml: open none/.x.yaml."},
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
			says.True(t, err == nil && stdout == in &&
				strings.Contains(stderr, "no RayCluster, RayJob, RayService or RayCronJob in it"), "%v, %q, %q", err,
				stdout, stderr)
		})
	}
}

// TestFolder: all manifests of a folder are changed in place, written below another folder, or joined into one file or
// stream; others are left alone.
func TestFolder(t *testing.T) {
	in, want := must.Get(os.ReadFile("testdata/plain.in.yaml"))(t), must.Get(os.ReadFile("testdata/plain.out.yaml"))(t)
	const other = "kind: ConfigMap"
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for name, data := range map[string]string{"a.yaml": other, "sub/b.yml": string(in), "notes.txt": "- x"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	flags := []string{"--storage-backend=s3", "--env=S3_BUCKET=ray-history", "-f", dir}

	diff, _, err := run(t, "", append(flags, "--diff")...)
	patch := exec.Command("patch", "-p0", "-o", "-", filepath.Join(dir, "sub/b.yml"))
	patch.Stdin = strings.NewReader(diff)
	if patched, failed := patch.Output(); err != nil || failed != nil || string(patched) != string(want) {
		t.Errorf("diff: %v, patch: %v, %s\n%s", err, failed, patched, diff)
	}

	stdout, stderr, err := run(t, "", flags...)
	stream := other + "\n" + string(want)
	if !isDocumentStart(want) {
		stream = other + "\n---\n" + string(want)
	}
	says.True(t, err == nil && stdout == stream && strings.Contains(stderr, "RayCluster plain: head: collector"),
		"printed: %v, %q\n%s", err, stderr, stdout)
	joined, folder := filepath.Join(t.TempDir(), "all.yaml"), filepath.Join(t.TempDir(), "new", "folder")
	for _, output := range []string{joined, folder, folder, dir + "/"} {
		if _, _, err := run(t, "", append(flags, "-o", output)...); err != nil {
			t.Error(err)
		}
	}
	for file, want := range map[string]string{
		joined: stream, filepath.Join(folder, "a.yaml"): other, filepath.Join(folder, "sub/b.yml"): string(want),
		filepath.Join(dir, "a.yaml"): other, filepath.Join(dir, "sub/b.yml"): string(want),
		filepath.Join(dir, "notes.txt"): "- x",
	} {
		got := must.Get(os.ReadFile(file))(t)
		says.True(t, string(got) == want, "%s:\n%s", file, got)
	}
	if diff, _, err := run(t, "", append(flags, "--diff")...); err != nil || diff != "" {
		t.Errorf("diff of what is changed: %v\n%s", err, diff)
	}
}

// TestFolderWithMistake: if one file cannot be changed, nothing is written, and nothing is reported as done.
func TestFolderWithMistake(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	must.OK(t, os.WriteFile(filepath.Join(dir, "a.yaml"), must.Get(os.ReadFile("testdata/plain.in.yaml"))(t), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("a: [ray.io/"), 0o600))
	_, stderr, err := run(t, "", "-f", dir, "-o", to, "--storage-backend=s3", "--env=S3_BUCKET=ray-history")
	says.Error(t, err, "b.yaml: document at line 1")
	says.None(t, stderr, "collector as container")
	_, err = os.Stat(to)
	says.True(t, os.IsNotExist(err), "the folder: %v", err)
}

func TestDiffOfLastLine(t *testing.T) {
	var out strings.Builder
	must.OK(t, writeDiff(&out, []manifest{{"a", []byte("x\ny")}}, []manifest{{"a", []byte("x\nz\n")}}))
	const want = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n-y\n\\ No newline at end of file\n+z\n"
	says.Equal(t, out.String(), want)
}

// TestFunction: a ResourceList, as kustomize gives it to a KRM function, comes back with its items changed. Its
// functionConfig has the flags.
func TestFunction(t *testing.T) {
	in := must.Get(os.ReadFile("testdata/plain.in.yaml"))(t)
	_, object, _ := strings.Cut(string(in), "apiVersion:") // a comment is before it
	item := "- apiVersion:" + strings.ReplaceAll(strings.TrimSuffix(object, "\n"), "\n", "\n  ") + "\n"
	list := func(data string) string {
		return "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n" + item +
			"functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  data:\n" + data
	}
	out, _, err := run(t, list("    storage-backend: s3\n    env: [S3_BUCKET=ray-history, A=b]\n    native: true\n"),
		"-f", "-")
	for _, want := range []string{"kind: ResourceList", "--storage-backend=s3", "value: ray-history", "name: A\n",
		"restartPolicy: Always", "functionConfig:"} {
		says.True(t, err == nil && strings.Contains(out, want), "%v, no %s in\n%s", err, want, out)
	}
	out, _, err = run(t, list("    storage-backend: gcs\n"), "-f", "-", "--storage-backend=s3")
	says.True(t, err == nil && strings.Contains(out, "--storage-backend=s3"), "the command line: %v\n%s", err, out)
	for data, want := range map[string]string{
		"    storage: s3\n": "data.storage is no flag", "    output: x\n": "data.output is no flag",
		"    native: maybe\n": "data.native", "    []\n": "data: want a mapping",
	} {
		if _, _, err := run(t, list(data), "-f", "-", "--storage-backend=s3"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}
