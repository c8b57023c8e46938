package local

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestDeepFolders: folders that are too deep for objects, as only others can have made them, are not gone through, and
// the deepest that are not too deep can be used.
func TestDeepFolders(t *testing.T) {
	s, dir := open(t)
	deep := strings.Repeat("d/", maxFolders) + "x"
	must.OK(t, s.Create(t.Context(), deep, strings.NewReader("text")))
	must.OK(t, s.Create(t.Context(), "x", strings.NewReader("text")))
	at := must.Get(os.OpenRoot(filepath.Join(dir, filepath.Dir(deep))))(t)
	for range 600 {
		must.OK(t, at.Mkdir("e", 0o700))
		below := must.Get(at.OpenRoot("e"))(t)
		must.OK(t, at.Close())
		at = below
	}
	must.OK(t, errors.Join(at.WriteFile("y", nil, 0o600), at.Close()))
	says.EqualSlices(t, keys(t, s, ""), []string{deep, "x"})
	body := must.Get(s.Get(t.Context(), deep, 0, -1))(t)
	text, err := io.ReadAll(body)
	must.OK(t, errors.Join(err, body.Close()))
	says.Equal(t, string(text), "text")
}

// TestOnlyRegularFilesAreObjects: anything else in the folder is no object, keeps no operation waiting, and stays as it
// is.
func TestOnlyRegularFilesAreObjects(t *testing.T) {
	for name, make := range map[string]func(dir, at string) error{
		"FIFO": func(_, at string) error { return syscall.Mkfifo(at, 0o600) },
		"socket": func(_, at string) error {
			l, err := net.Listen("unix", at)
			t.Cleanup(func() { _ = l.Close() })
			return err
		},
		"folder":           func(_, at string) error { return os.Mkdir(at, 0o700) },
		"link":             func(_, at string) error { return os.Symlink("real", at) },
		"link to a folder": func(_, at string) error { return os.Symlink("f", at) },
		"link to a FIFO": func(dir, at string) error {
			return errors.Join(syscall.Mkfifo(filepath.Join(dir, "p"), 0o600), os.Symlink("p", at))
		},
		"link to itself":    func(_, at string) error { return os.Symlink("odd", at) },
		"link to nowhere":   func(_, at string) error { return os.Symlink("none", at) },
		"link to elsewhere": func(_, at string) error { return os.Symlink("/dev/zero", at) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "odd") // short, because of the socket's path
			must.OK(t, err)
			defer func() { _ = os.RemoveAll(dir) }()
			s, err := Open(dir)
			must.OK(t, err)
			defer func() { _ = s.Close() }()
			for _, key := range []string{"real", "f/x"} {
				must.OK(t, s.Create(t.Context(), key, strings.NewReader("text")))
			}
			odd := filepath.Join(dir, "odd")
			must.OK(t, make(dir, odd))
			stuck := time.AfterFunc(5*time.Minute, func() { panic("an operation waits") })
			defer stuck.Stop()
			for _, key := range []string{"odd", "odd/x"} {
				body, err := s.Get(t.Context(), key, 0, -1)
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("get %s: %v", key, err)
					if err == nil {
						_ = body.Close()
					}
				}
				says.ErrorIs(t, says.Err(s.Stat(t.Context(), key)), os.ErrNotExist, "stat %s", key)
				says.OK(t, s.Delete(t.Context(), key), "delete %s", key)
				if key == "odd/x" && name == "folder" {
					continue
				}
				for what, err := range map[string]error{
					"create": s.Create(t.Context(), key, strings.NewReader("new")),
					"put":    s.Put(t.Context(), key, strings.NewReader("new")),
				} {
					says.ErrorIs(t, err, blob.ErrRefused, "%s %s", what, key)
				}
			}
			for _, prefix := range []string{"", "o", "odd", "odd/", "odd/x"} {
				for o, err := range s.List(t.Context(), prefix, blob.ListOptions{}) {
					says.True(t, err == nil && !strings.HasPrefix(o.Key, "odd"), "listed %s, %v below %q", o.Key, err,
						prefix)
				}
			}
			says.OK(t, says.Err(os.Lstat(odd)))
			for _, key := range []string{"real", "f/x"} {
				body := must.Get(s.Get(t.Context(), key, 0, -1))(t)
				if text, err := io.ReadAll(body); string(text) != "text" || err != nil {
					t.Errorf("%s: %q, %v", key, text, err)
				}
				_ = body.Close()
			}
		})
	}
}

// TestOddStagingFolder: what keeps the store from writing does not keep it from opening.
func TestOddStagingFolder(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, staging), 0o600))
	s := must.Get(Open(dir))(t)
	defer func() { _ = s.Close() }()
	says.True(t, s.Create(t.Context(), "a", strings.NewReader("x")) != nil, "stored without a place to write")
}
