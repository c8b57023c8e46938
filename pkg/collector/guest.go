package collector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NoRayError says that a folder of the collector's cannot be made yet, because it would be below a folder that Ray
// makes. If the collector made that one, Ray's user could not write to it, and Ray would not start.
type NoRayError struct {
	Folder string // that Ray makes
}

func (e *NoRayError) Error() string {
	return fmt.Sprintf("Ray has not made the folder %s yet", e.Folder)
}

// LeaveToRay returns a NoRayError if making a folder, with those above it that are missing, would make one of Ray's:
// its temporary folder, one above that, or a session's.
func LeaveToRay(folder, rayTmpDir string) error {
	own, err := resolved(folder)
	if err != nil {
		return err
	}
	ray, err := resolved(rayTmpDir)
	if err != nil {
		return err
	}
	top := own // the highest folder that is missing
	for dir := own; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		top = dir
	}
	if _, err := os.Lstat(top); err == nil {
		return nil // all are there
	}
	if within(ray, top) {
		return &NoRayError{rayTmpDir}
	}
	if below, ok := strings.CutPrefix(top, ray+string(filepath.Separator)); ok && strings.HasPrefix(below, "session_") {
		return &NoRayError{top}
	}
	return nil
}

// within says whether path is folder, or is below it.
func within(path, folder string) bool {
	const separator = string(filepath.Separator)
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, separator)+separator)
}

// resolved is a path without symbolic links, as far as it exists.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	missing := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, missing), nil
		}
		if dir == filepath.Dir(dir) {
			return path, nil
		}
		missing = filepath.Join(filepath.Base(dir), missing)
	}
}
