package frontend

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestNearestFrontend(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"2.55.1", "2.60.0", "2.9.3", "2.60.2"} {
		build(t, dir, v)
	}
	b := &Builds{Dir: dir}
	says.EqualSlices(t, b.Versions(), []string{"2.60.2", "2.60.0", "2.55.1", "2.9.3"}, "versions")
	for version, want := range map[string]string{
		"2.60.0": "2.60.0", "2.60.1": "2.60.2", "2.60.9": "2.60.2", "2.55.0": "2.55.1", "2.57.0": "2.55.1",
		"2.58.0": "2.60.0", "2.10.0": "2.9.3",
		"3.0.0.dev0": "2.60.2", "2.60.0rc1": "2.60.0", "": "2.60.2", "nightly": "2.60.2",
	} {
		says.Equal(t, b.Nearest(version), want, "nearest to %q", version)
	}
	for _, dir := range []string{"", dir + "/nowhere"} {
		says.Equal(t, (&Builds{Dir: dir}).Nearest("2.60.0"), "", "without builds the nearest")
	}
}

func TestFrontendFiles(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "2.55.1")
	build(t, dir, "2.60.0")
	b := &Builds{Dir: dir}
	for _, tc := range []struct{ version, name, want string }{
		{"", "static/js/main.2.55.1.js", "js of 2.55.1"},
		{"", "static/js/main.2.60.0.js", "js of 2.60.0"},
		{"2.55.1", "index.html", "<html>dashboard 2.55.1"},
		{"", "speedscope", "<html>speedscope"},
		{"", "speedscope/", "<html>speedscope"},
		{"2.55.1", "static/js/main.2.60.0.js", ""},
		{"", "static", ""},
		{"", ".", ""},
		{"", "", ""},
		{"", "../v2.55.1/index.html", ""},
		{"", "/etc/passwd", ""},
		{"9.9.9", "index.html", ""},
	} {
		f, _, err := b.Open(tc.version, tc.name)
		got := ""
		if err == nil {
			body := must.Get(io.ReadAll(f))(t)
			got = string(body)
			_ = f.Close()
		}
		says.Equal(t, got, tc.want, "open(%q, %q)", tc.version, tc.name)
	}
}

// build makes a build of the frontend as the Ray wheel has it.
func build(t *testing.T, dir, version string) {
	t.Helper()
	must.OK(t, os.CopyFS(filepath.Join(dir, "v"+version), fstest.MapFS{
		"index.html":                        {Data: []byte("<html>dashboard " + version)},
		"static/js/main." + version + ".js": {Data: []byte("js of " + version)},
		"favicon.ico":                       {Data: []byte("icon")},
		"speedscope/index.html":             {Data: []byte("<html>speedscope")},
	}))
}
