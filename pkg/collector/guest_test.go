package collector

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLeaveToRay: no folder of Ray's is made, whichever of the collector's is below it.
func TestLeaveToRay(t *testing.T) {
	for name, test := range map[string]struct {
		exists      []string // below a new folder
		links       map[string]string
		folder, ray string
		want        string // the folder of Ray's; "" if the collector may make its own
	}{
		"default spool, nothing there":     {folder: "tmp/ray/.rayhistory", ray: "tmp/ray", want: "tmp/ray"},
		"a volume above Ray's folder":      {exists: []string{"tmp"}, folder: "tmp/ray/.rayhistory", ray: "tmp/ray", want: "tmp/ray"},
		"Ray's folder is there":            {exists: []string{"tmp/ray"}, folder: "tmp/ray/.rayhistory", ray: "tmp/ray"},
		"all is there":                     {exists: []string{"tmp/ray/.rayhistory"}, folder: "tmp/ray/.rayhistory", ray: "tmp/ray"},
		"a folder of its own":              {exists: []string{"tmp"}, folder: "var/spool/rayhistory", ray: "tmp/ray"},
		"beside Ray's folder":              {exists: []string{"tmp"}, folder: "tmp/spool/a", ray: "tmp/ray"},
		"beside it, in a folder above":     {exists: []string{"scratch"}, folder: "scratch/jobs/spool", ray: "scratch/jobs/ray", want: "scratch/jobs/ray"},
		"a like name":                      {exists: []string{"tmp"}, folder: "tmp/rayhistory", ray: "tmp/ray"},
		"Ray's folder itself":              {exists: []string{"tmp"}, folder: "tmp/ray", ray: "tmp/ray", want: "tmp/ray"},
		"above Ray's folder":               {folder: "tmp", ray: "tmp/ray", want: "tmp/ray"},
		"deep below":                       {exists: []string{"tmp/ray"}, folder: "tmp/ray/a/b", ray: "tmp/ray"},
		"in a session's folder":            {exists: []string{"tmp/ray"}, folder: "tmp/ray/session_latest/logs/spool", ray: "tmp/ray", want: "tmp/ray/session_latest"},
		"by another name of the volume":    {exists: []string{"tmp"}, links: map[string]string{"shared": "tmp"}, folder: "shared/ray/.rayhistory", ray: "tmp/ray", want: "tmp/ray"},
		"by a link to where Ray's will be": {exists: []string{"disk"}, links: map[string]string{"tmp": "disk"}, folder: "disk/ray/x", ray: "tmp/ray", want: "tmp/ray"},
		"with dots":                        {exists: []string{"tmp"}, folder: "tmp/x/../ray/spool", ray: "tmp/./ray", want: "tmp/ray"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range test.exists {
				if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for link, to := range test.links {
				if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			err := LeaveToRay(dir+"/"+test.folder, dir+"/"+test.ray)
			var none *NoRayError
			if errors.As(err, &none) != (test.want != "") || (err == nil) != (test.want == "") {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if none != nil && filepath.Clean(none.Folder) != filepath.Join(dir, test.want) {
				t.Errorf("waits for %s, want %s", none.Folder, test.want)
			}
		})
	}
}

// TestRayCanMakeItsFolder: the collector with its default spool starts only once Ray's folder is there, and makes it
// neither then nor when it is deleted under it.
func TestRayCanMakeItsFolder(t *testing.T) {
	ray := filepath.Join(t.TempDir(), "ray")
	o, _ := options(t, ray)
	o.SpoolDir = filepath.Join(ray, ".rayhistory")
	var none *NoRayError
	if c, err := New(o); !errors.As(err, &none) {
		t.Fatalf("%v, %v", c, err)
	}
	absent := func(when string) {
		t.Helper()
		if _, err := os.Lstat(ray); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s the collector made Ray's folder: %v", when, err)
		}
	}
	absent("at its start")
	if err := os.Mkdir(ray, 0o777); err != nil {
		t.Fatal(err)
	}
	c := start(t, o)
	defer stop(t, c)
	if err := os.RemoveAll(ray); err != nil {
		t.Fatal(err)
	}
	if err := c.keepFolder(); !errors.As(err, &none) {
		t.Error(err)
	}
	if err := c.sessions.seen(session().Name); err != nil {
		t.Log(err)
	}
	absent("later")
	if err := os.Mkdir(ray, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := c.keepFolder(); err != nil {
		t.Error(err)
	}
}

// TestSpoolFolderAboveRay: a spool folder that holds Ray's is not taken for the collector alone.
func TestSpoolFolderAboveRay(t *testing.T) {
	for _, below := range []string{"", "ray", "a/ray"} {
		shared := t.TempDir()
		ray := filepath.Join(shared, below)
		if err := os.MkdirAll(ray, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(shared, 0o777); err != nil {
			t.Fatal(err)
		}
		o, _ := options(t, ray)
		o.SpoolDir = shared
		c := start(t, o)
		stop(t, c)
		if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("%q: mode %v, %v", below, info.Mode(), err)
		}
		if c.opts.SpoolDir == shared {
			t.Errorf("%q: it spools in %s", below, c.opts.SpoolDir)
		}
	}
}
