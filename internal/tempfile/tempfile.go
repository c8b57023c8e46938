// Package tempfile makes temporary files that leave nothing behind, also if the process is killed.
package tempfile

import (
	"errors"
	"fmt"
	"os"
)

// ErrUnusable says that the folder for temporary files is full, or that none can be made in it.
var ErrUnusable = errors.New("temporary files cannot be written")

// Create makes a file without a name in $TMPDIR, or else in /tmp: its space is freed when it is closed.
func Create() (*os.File, error) {
	file, err := os.CreateTemp("", "historyserver-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w; set TMPDIR to a writable folder with enough space", ErrUnusable, err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
