package privatedir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const stranger = 12345

func TestOpen(t *testing.T) {
	within := fmt.Sprintf("collector-%d", os.Geteuid())
	for name, test := range map[string]struct {
		make func(dir string) error
		want string // below the folder
		err  string
		root bool // only root can give files away
	}{
		"none":       {make: func(dir string) error { return os.Remove(dir) }},
		"own, open":  {make: func(dir string) error { return os.Chmod(dir, 0o777) }},
		"own, group": {make: func(dir string) error { return os.Chmod(dir, 0o2770) }},
		"own, with files": {make: func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "events", "quarantine"), 0o755)
		}},
		"another's": {make: func(dir string) error { return os.Chown(dir, stranger, stranger) }, want: within,
			root: true},
		"another's, open": {make: func(dir string) error {
			return both(os.Chmod(dir, 0o777), os.Chown(dir, stranger, 0))
		}, want: within, root: true},
		"another's file": {make: func(dir string) error {
			return give(filepath.Join(dir, "events", "00000000000000000000.seg"))
		}, want: within, root: true},
		"another's link": {make: func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "events")) },
			want: within},
		"another's, and ours": {make: func(dir string) error {
			return both(give(filepath.Join(dir, "x")), give(filepath.Join(dir, within, "events", "x")))
		}, err: "belongs to user 12345", root: true},
		"the name is a link": {make: func(dir string) error {
			return both(os.Symlink("/etc", filepath.Join(dir, "x")), os.Symlink("/etc", filepath.Join(dir, within)))
		}, err: "is not a folder, but may be a link"},
		"a file": {make: func(dir string) error { return both(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
			err: "make folder"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			dir := filepath.Join(t.TempDir(), "spool")
			must.OK(t, both(os.Mkdir(dir, 0o700), test.make(dir)))
			got, err := Open(dir)
			if test.err != "" {
				says.Error(t, err, test.err, "%q", got)
				return
			}
			must.True(t, err == nil && got == filepath.Join(dir, test.want), "%q, %v", got, err)
			info, err := os.Stat(got)
			says.True(t, err == nil && info.Mode().Perm()&0o077 == 0, "mode %v, %v", info.Mode(), err)
			says.Equal(t, must.Get(Open(dir))(t), got, "again")
		})
	}
}

// TestSharedRootIsLeftAsItIs: a volume's root that is not taken keeps its mode.
func TestSharedRootIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, both(os.Chmod(dir, 0o777), os.Symlink("/etc", filepath.Join(dir, "x"))))
	must.Get(Open(dir))(t)
	info, err := os.Stat(dir)
	says.True(t, err == nil && info.Mode().Perm() == 0o777, "mode %v, %v", info.Mode(), err)
}

func both(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// give makes a file of another user.
func give(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return both(os.WriteFile(path, []byte("x"), 0o644), os.Chown(path, stranger, stranger))
}
