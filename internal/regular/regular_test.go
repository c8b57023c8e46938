package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
		"file": nil, "inside": nil, "away": errAny, "zero": errAny, "fifo": ErrNotRegular, ".": ErrNotRegular,
		"long": errTooLong, "none": os.ErrNotExist,
	} {
		data, err := ReadFile(filepath.Join(dir, "x", "..", name), 10)
		if name == "." {
			root := must.Get(os.OpenRoot(dir))(t)
			data, err = Read(root, ".", 10)
			_ = root.Close()
		}
		switch {
		case want == nil && (err != nil || string(data) != "hello"):
			t.Errorf("%s: %q, %v", name, data, err)
		case want != nil && (err == nil || data != nil || (want != errAny && !errors.Is(err, want))):
			t.Errorf("%s: %q, %v, want %v", name, data, err, want)
		}
		says.True(t, err == nil || !strings.Contains(err.Error(), "hunter2"), "%s: the error tells the content: %v",
			name, err)
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
	says.Equal(t, len(must.Get(Folder(root, ".", 2))(t)), 2)
	for _, name := range []string{"away", "fifo", "a", "none"} {
		entries, err := Folder(root, name, 2)
		says.True(t, err != nil, "%s is a folder with %v", name, entries)
	}
}

// TestLast: of the wanted names the last are there, in order, however many others a folder has.
func TestLast(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%c-%03d", 'a'+i%4, i)), nil, 0o600))
	}
	for limit, want := range map[int]struct {
		names int
		more  bool
	}{1: {1, true}, 20: {20, true}, 249: {249, true}, 250: {250, false}, 1000: {250, false}} {
		folder := must.Get(os.Open(dir))(t)
		names, more, err := Last(folder, limit, func(e fs.DirEntry) bool { return e.Name()[0] == 'b' })
		must.OK(t, errors.Join(err, folder.Close()))
		says.True(t, len(names) == want.names && more == want.more && slices.IsSorted(names) &&
			names[len(names)-1] == "b-997", "limit %d: %q, more: %v", limit, names, more)
	}
}
