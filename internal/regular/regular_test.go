package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

func TestRead(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(outside, "secret"): "hunter2", filepath.Join(dir, "file"): "hello",
		filepath.Join(dir, "long"): strings.Repeat("x", 11),
	} {
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, to := range map[string]string{"inside": "file", "away": filepath.Join(outside, "secret"),
		"zero": "/dev/zero"} {
		must.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for name, want := range map[string]error{
		"file": nil, "inside": nil, "away": errAny, "zero": errAny, "fifo": errNotRegular, ".": errNotRegular,
		"long": errTooLong, "none": os.ErrNotExist,
	} {
		data, err := ReadFile(filepath.Join(dir, "x", "..", name), 10)
		if name == "." {
			root, openErr := os.OpenRoot(dir)
			if openErr != nil {
				t.Fatal(openErr)
			}
			data, err = Read(root, ".", 10)
			_ = root.Close()
		}
		switch {
		case want == nil && (err != nil || string(data) != "hello"):
			t.Errorf("%s: %q, %v", name, data, err)
		case want != nil && (err == nil || data != nil || (want != errAny && !errors.Is(err, want))):
			t.Errorf("%s: %q, %v, want %v", name, data, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the content: %v", name, err)
		}
	}
}

var errAny = errors.New("any error")

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must.OK(t, os.Symlink("/etc", filepath.Join(dir, "away")))
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	if entries, err := Folder(root, ".", 2); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, name := range []string{"away", "fifo", "a", "none"} {
		if entries, err := Folder(root, name, 2); err == nil {
			t.Errorf("%s is a folder with %v", name, entries)
		}
	}
}
