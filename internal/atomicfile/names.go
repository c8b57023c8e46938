package atomicfile

import (
	"io/fs"
	"os"
)

// Names says whether path still is the name of an open file. If the file was deleted, what is written to it is lost
// when it is closed.
func Names(path string, open interface{ Stat() (fs.FileInfo, error) }) bool {
	at, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := open.Stat()
	return err == nil && os.SameFile(at, info)
}
