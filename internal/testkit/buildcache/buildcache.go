// Package buildcache keeps the programs that tests build or download, so that they are built once for all test runs.
package buildcache

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Folder is the folder of that name in RAYHISTORY_TEST_CACHE, or else in rayhistory-test in the user's cache. The name
// says all that its content hangs on, as the programs' versions: build fills the folder only if it is not there yet. Of
// several that need it at once, also in other processes, one builds and the others wait.
func Folder(name string, build func(dir string) error) (string, error) {
	cache, err := root()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	lock, err := os.OpenFile(folder+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	// Built in a folder of its own and renamed, so that an interrupted build does no harm.
	building, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(building) }()
	if err := build(building); err != nil {
		return "", err
	}
	return folder, os.Rename(building, folder)
}

func root() (string, error) {
	dir := os.Getenv("RAYHISTORY_TEST_CACHE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "rayhistory-test")
	}
	return dir, os.MkdirAll(dir, 0o755)
}
