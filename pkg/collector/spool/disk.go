package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/atomicfile"
)

// disk is the file system as the spool uses it. Tests inject faults here.
type disk interface {
	open(path string, flags int) (file, error) // as os.OpenFile
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
	listFiles(dir string) ([]fs.FileInfo, error)
	// free is how many bytes can be written; more than any spool if that is not known.
	free(dir string) int64
}

type file interface {
	io.ReaderAt
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
	Close() error
}

type osDisk struct{}

// newFile are the flags of a file that must not exist yet.
const newFile = os.O_RDWR | os.O_CREATE | os.O_EXCL

func (osDisk) open(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err // a nil *os.File in the interface would not be nil
	}
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }
func (osDisk) syncDir(dir string) error     { return atomicfile.SyncDir(dir) }

// listFiles lists the regular files of a folder, in no order. Those that were removed meanwhile are left out.
func (osDisk) listFiles(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	return files, nil
}

func (osDisk) free(dir string) int64 {
	var fs unix.Statfs_t
	// A file system of no size, as some network shares and FUSE have, does not know what is free either.
	if err := unix.Statfs(dir, &fs); err != nil || fs.Blocks == 0 || fs.Bsize <= 0 {
		return restartGap
	}
	return int64(min(fs.Bavail, restartGap/uint64(fs.Bsize)) * uint64(fs.Bsize))
}

// ifDiskFull wraps errors that go away when something is deleted in ErrFull, and returns others as they are.
func ifDiskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
