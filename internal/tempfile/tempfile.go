// Package tempfile makes temporary files that leave nothing behind, also if the process is killed.
package tempfile

import (
	"fmt"
	"os"
)

// Create makes a file without a name in $TMPDIR, or else in /tmp: its space is freed when it is closed.
func Create() (*os.File, error) {
	file, err := os.CreateTemp("", "historyserver-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w; set TMPDIR to a writable folder with enough space", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
