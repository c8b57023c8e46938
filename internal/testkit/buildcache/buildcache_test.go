package buildcache

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestFolder(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("RAYHISTORY_TEST_CACHE", cache)
	errBuild := errors.New("does not compile")
	builds := 0
	for _, fails := range []error{errBuild, nil, errBuild} { // the last is not asked
		folder, err := Folder("tool@v1", func(dir string) error {
			builds++
			return errors.Join(os.WriteFile(filepath.Join(dir, "tool"), nil, 0o755), fails)
		})
		if builds == 1 {
			must.True(t, errors.Is(err, errBuild), "a build that fails: %v", err)
			continue
		}
		must.True(t, err == nil && folder == filepath.Join(cache, "tool@v1"), "%v %v", folder, err)
		says.OK(t, says.Err(os.Stat(filepath.Join(folder, "tool"))))
	}
	says.Equal(t, builds, 2, "built")
	if left, err := os.ReadDir(cache); err != nil || len(left) != 2 || left[1].Name() != "tool@v1.lock" {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

// TestBuiltOnce: who needs a program that another process is building waits for it, for builds take minutes.
func TestBuiltOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("RAYHISTORY_TEST_CACHE", cache)
	_, err := Folder("tool@v2", func(string) error {
		lock, err := os.Open(filepath.Join(cache, "tool@v2.lock"))
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		says.ErrorIs(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK,
			"another could build meanwhile")
		return nil
	})
	must.OK(t, err)
}
