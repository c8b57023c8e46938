// Package privatedir finds folders to which only this process's user can have written, on a volume where other users
// may write. A pod whose containers run as several users has such a volume.
package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Open makes the folder at path if there is none, and returns it if it is this user's own: this user owns it and
// everything in it, and from now on nobody else may write to it. Otherwise (another user made it or put something
// there, or it is the root of a shared volume) Open makes and returns the folder "collector-{user ID}" in it, under the
// same conditions. An error means that a folder cannot be made, or that another user has taken that name too.
func Open(path string) (string, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w; set a folder that user %d may write to", err, os.Geteuid())
	}
	foreign := Claim(path)
	if foreign == nil {
		return path, nil
	}
	own := filepath.Join(path, "collector-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w; make a folder in it: %w; set a folder to which this user may write", foreign, err)
	}
	if err := Claim(own); err != nil {
		return "", fmt.Errorf("%w: another user of the volume could have put data there, which this process would "+
			"store as its own; remove the folder, or set a folder to which only this user may write", err)
	}
	return own, nil
}

// Claim returns nil if a folder and everything in it belongs to this user, and from then on nobody else may write to
// it. Otherwise the folder's rights stay as they were.
func Claim(path string) error {
	// The owner and the rights are those of the open folder: the path may lead elsewhere the next time.
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%s is not a folder, but may be a link to one", path)
		}
		return err
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		// First, so that nobody adds anything while the contents are checked.
		if err := dir.Chmod(info.Mode().Perm() &^ 0o077); err != nil {
			return fmt.Errorf("keep others from writing to %s: %w", path, err)
		}
	}
	if err := checkContents(path); err != nil {
		if info.Mode().Perm()&0o077 != 0 {
			err = errors.Join(err, dir.Chmod(info.Mode())) // it is left as it was
		}
		return err
	}
	return nil
}

// checkContents returns an error unless everything below path is a file or a folder of this user.
func checkContents(path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		if mode := info.Mode(); !mode.IsDir() && !mode.IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", filepath.Join(path, name))
		}
		return checkOwner(filepath.Join(path, name), info)
	})
}

func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, but this process runs as user %d", path, stat.Uid, os.Geteuid())
	}
	return nil
}
