package server

import (
	"io"
	"slices"
	"testing"
)

func TestNearestFrontend(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"2.55.1", "2.60.0", "2.9.3", "2.60.2"} {
		build(t, dir, v)
	}
	b := &frontends{dir: dir}
	if got := b.versions(); !slices.Equal(got, []string{"2.60.2", "2.60.0", "2.55.1", "2.9.3"}) {
		t.Errorf("versions %v", got)
	}
	for version, want := range map[string]string{
		"2.60.0": "2.60.0", "2.60.1": "2.60.2", "2.60.9": "2.60.2", "2.55.0": "2.55.1", "2.57.0": "2.55.1", "2.58.0": "2.60.0", "2.10.0": "2.9.3",
		"3.0.0.dev0": "2.9.3", "2.60.0rc1": "2.60.0", "": "2.60.2", "nightly": "2.9.3",
	} {
		if got := b.nearest(version); got != want {
			t.Errorf("nearest to %q is %q, want %q", version, got, want)
		}
	}
	for _, dir := range []string{"", dir + "/nowhere"} {
		if got := (&frontends{dir: dir}).nearest("2.60.0"); got != "" {
			t.Errorf("without builds the nearest is %q", got)
		}
	}
}

func TestFrontendFiles(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "2.55.1")
	build(t, dir, "2.60.0")
	b := &frontends{dir: dir}
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
		f, _, err := b.open(tc.version, tc.name)
		got := ""
		if err == nil {
			body, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			got = string(body)
			_ = f.Close()
		}
		if got != tc.want {
			t.Errorf("open(%q, %q) is %q, want %q", tc.version, tc.name, got, tc.want)
		}
	}
}
