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

// readPrefix hashes the first n bytes of f, fewer if it is shorter.
func readPrefix(f io.ReaderAt, n int64) (prefix, error) {
	var buf [maxPrefix]byte
	k, err := f.ReadAt(buf[:min(n, maxPrefix)], 0)
	if err != nil && err != io.EOF {
		return prefix{}, err
	}
	h := fnv.New64a()
	_, _ = h.Write(buf[:k])
	return prefix{n: int64(k), sum: h.Sum64()}, nil
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
