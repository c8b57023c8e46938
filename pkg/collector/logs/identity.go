package logs

import (
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// fileID does not change when a file is renamed. File systems give the inode of a removed file to a new one, so a fileID identifies a file
// only together with its prefix.
type fileID struct{ dev, ino uint64 }

func idOf(info fs.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(s.Dev), s.Ino}
	}
	return fileID{}
}

const (
	// maxPrefix is the number of first bytes that distinguish a file from another with the same inode.
	maxPrefix = 1024
	// copyPrefix is the minimum number of equal first bytes of a copy: about a line.
	copyPrefix = 32
)

// prefix is a hash of a file's first n bytes; logs only grow, so it stays the same as long as the file is the same.
type prefix struct {
	n   int64
	sum uint64
}

// readStart reads the first bytes of f, at most maxPrefix.
func readStart(f io.ReaderAt) ([]byte, error) {
	start := make([]byte, maxPrefix)
	n, err := f.ReadAt(start, 0)
	if err == io.EOF {
		err = nil
	}
	return start[:n], err
}

func prefixOf(start []byte) prefix {
	h := fnv.New64a()
	_, _ = h.Write(start)
	return prefix{n: int64(len(start)), sum: h.Sum64()}
}

// begins says whether a file that starts with these bytes has the prefix.
func (p prefix) begins(start []byte) bool {
	return int64(len(start)) >= p.n && prefixOf(start[:p.n]) == p
}

// errChanged says that a name no longer belongs to the file that the last scan saw.
var errChanged = errors.New("the log was replaced since the last scan")

// isElsewhere says whether opening a log failed because it was moved since the last scan.
func isElsewhere(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errChanged) }

// open opens a log, unless the path no longer leads to the file id. It never leaves root by a symbolic link, and never blocks as opening a
// FIFO would.
func open(root *os.Root, name string, id fileID) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || idOf(info) != id) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
