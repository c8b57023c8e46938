package atomicfile

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestWriteReplacesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, want := range []string{"a long first version", "short"} {
		must.OK(t, Write(path, []byte(want)))
		got, err := os.ReadFile(path)
		must.True(t, err == nil && string(got) == want, "read %q, %v, want %q", got, err, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Fatalf("left %v, %v", entries, err)
	}
}

func TestWriteFailsWithoutTrace(t *testing.T) {
	dir := t.TempDir()
	// The name is taken by a folder, so that the rename fails after the bytes were written.
	path := filepath.Join(dir, "state.json")
	must.OK(t, os.MkdirAll(filepath.Join(path, "x"), 0o755))
	must.True(t, Write(path, []byte("x")) != nil, "wrote over a folder")
	must.True(t, Write(filepath.Join(dir, "missing", "x"), nil) != nil, "wrote into a missing folder")
	entries, err := os.ReadDir(dir)
	must.True(t, err == nil && len(entries) == 1, "left %v, %v", entries, err)
}

// TestFolderThatCannotBeSynced: shares say EINVAL, as a pipe does; other errors count.
func TestFolderThatCannotBeSynced(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer w.Close()
	if err := r.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Skipf("a pipe says %v", err)
	}
	must.OK(t, SyncFolder(r))
	must.OK(t, r.Close())
	says.True(t, SyncFolder(r) != nil, "a closed folder is synced")
}

// TestLinkIsNotFollowed: a link that has the name of the file that is written first leads to no other file.
func TestLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "state.json"), filepath.Join(dir, "other")
	must.OK(t, os.WriteFile(other, []byte("kept"), 0o600))
	must.OK(t, os.Symlink(other, tempName(path)))
	must.OK(t, Write(path, []byte("new")))
	for file, want := range map[string]string{path: "new", other: "kept"} {
		says.Equal(t, string(must.Get(os.ReadFile(file))(t)), want, file)
	}
}

// TestModeBeforeTheName: a file never has its name with another mode than it was asked for.
func TestModeBeforeTheName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	modeOf := func(file string) os.FileMode { return must.Get(os.Stat(file))(t).Mode().Perm() }
	for _, mode := range []os.FileMode{0o644, 0o666, 0o600} {
		before := os.FileMode(0)
		must.OK(t, writeWhole(path, mode, func(*bufio.Writer) error {
			before = modeOf(tempName(path))
			return nil
		}))
		says.Equal(t, before, mode, "the mode before the rename")
		says.Equal(t, modeOf(path), mode, "the mode")
	}
}
