// Package local stores objects as files of a folder: the object with a key is the file {dir}/{key}. It is the default
// backend, and the one that opens an exported session.
//
// Keys are file names as they are, with two exceptions that names.go explains. A key cannot be both an object and a
// folder of others ("a" and "a/b"), because both would be the same path: the second one is refused.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// staging is the folder that objects are written in before they get their names. No key maps to it.
	staging = marker + "tmp"
	// staleAfter is the age from which a file in staging was left by a crash.
	staleAfter = 24 * time.Hour

	fileMode = 0o644
	dirMode  = 0o755
)

// Store is a folder. Several processes may share one.
type Store struct {
	dir string
	// root confines every operation: neither a key nor a symbolic link leads out of the folder.
	root *os.Root
}

var _ blob.Store = (*Store)(nil)

// Open opens the store in dir, which it makes, and removes old temporary files of writers that did not end.
func Open(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("open local store: no folder given: set --local-dir")
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("open local store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open local store: %w", err)
	}
	s := &Store{dir: dir, root: root}
	s.removeLeftovers()
	return s, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

// removeLeftovers removes what crashed writers left, as far as it can: a folder mounted read-only is not an error.
func (s *Store) removeLeftovers() {
	left, err := s.readFolder(staging)
	if err != nil {
		return
	}
	for _, entry := range left {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = s.root.Remove(path.Join(staging, entry.Name()))
		}
	}
}

func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	file, info, err := s.openObject(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	offset = min(max(offset, 0), info.Size())
	if length < 0 || length > info.Size()-offset {
		length = info.Size() - offset
	}
	return section{io.NewSectionReader(file, offset, length), file, s}, nil
}

// section is a part of a file that closes the file.
type section struct {
	io.Reader
	io.Closer
	store *Store
}

func (s section) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	return n, s.store.mapReadError(err)
}

func (s *Store) Stat(ctx context.Context, key string) (blob.Object, error) {
	if err := ctx.Err(); err != nil {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	name, err := FileName(key)
	if err != nil {
		return blob.Object{}, fmt.Errorf("stat: %w", err)
	}
	info, err := s.statRegular(name)
	if err != nil {
		return blob.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return objectOf(key, info), nil
}

// statRegular returns what is known of a regular file. Anything else that has the name, and what is reached through a
// symbolic link, is os.ErrNotExist: it is no object, and List does not name it either.
func (s *Store) statRegular(name string) (fs.FileInfo, error) {
	if err := s.checkFolder(path.Dir(name)); err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = os.ErrNotExist
	}
	return info, s.mapReadError(err)
}

// checkFolder returns os.ErrNotExist unless the path name, below the store's folder, leads to a folder without going
// through symbolic links.
func (s *Store) checkFolder(name string) error {
	for i, c := range name + "/" {
		if c != '/' || name[:i] == "." {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.dir, name[:i]))
		if err == nil && !info.IsDir() {
			err = os.ErrNotExist
		}
		if err != nil {
			return s.mapReadError(err)
		}
	}
	return nil
}

// readFolder reads the entries of a folder, and never waits as opening a FIFO would.
func (s *Store) readFolder(name string) ([]fs.DirEntry, error) {
	if err := s.checkFolder(name); err != nil {
		return nil, err
	}
	folder, err := regular.OpenFolder(s.root, name)
	if err != nil {
		return nil, s.mapReadError(err)
	}
	entries, err := folder.ReadDir(-1)
	return entries, errors.Join(s.mapReadError(err), folder.Close())
}

// openObject opens an object to read, and describes its file. Anything but a regular file does not exist for the store.
func (s *Store) openObject(ctx context.Context, key string) (*os.File, fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	name, err := FileName(key)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.statRegular(name); err != nil {
		return nil, nil, err
	}
	file, info, err := regular.Open(s.root, name)
	if errors.Is(err, regular.ErrNotRegular) { // it is something else by now
		err = os.ErrNotExist
	}
	return file, info, s.mapReadError(err)
}

func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	// Only a hard link gives a complete file a name and fails if the name is taken.
	if err := s.writeAndPublish(ctx, key, body, s.root.Link); err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	return nil
}

func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.writeAndPublish(ctx, key, body, s.root.Rename); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// writeAndPublish writes body to a temporary file and calls publish to give it the object's name, by a link or a
// rename. Both the bytes and the name are on disk before it returns, because the collector forgets what it has stored.
func (s *Store) writeAndPublish(ctx context.Context, key string, body io.ReadSeeker,
	publish func(from, to string) error) error {
	name, err := FileName(key)
	if err != nil {
		return err
	}
	staged, info, err := s.writeTemporary(ctx, body)
	if err != nil {
		return err
	}
	defer func() { _ = s.root.Remove(staged) }() // its second name after a link, nothing after a rename
	folder := path.Dir(name)
	for attempt := 0; ; attempt++ {
		if err = s.makeFolder(folder); err == nil {
			err = s.checkPlace(name)
		}
		if err == nil {
			err = publish(staged, name)
		}
		if err != nil { // NFS sends a request again whose answer is lost, and then the file is in its own way
			if there, statErr := s.root.Lstat(name); statErr == nil && os.SameFile(there, info) {
				err = nil
			}
		}
		// Between making the folder and using it, a Delete may have removed it as empty. That does not happen for ever.
		const maxAttempts = 100
		if !errors.Is(err, os.ErrNotExist) || attempt == maxAttempts {
			break
		}
	}
	if err != nil {
		return s.mapError(err, name)
	}
	return s.syncFolder(folder)
}

// writeTemporary writes a body to a new synced file in the folder for temporary files.
func (s *Store) writeTemporary(ctx context.Context, body io.ReadSeeker) (name string, info fs.FileInfo, err error) {
	if err := s.root.MkdirAll(staging, dirMode); err != nil {
		return "", nil, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", nil, err
	}
	name = path.Join(staging, rand.Text())
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", nil, err
	}
	_, err = io.Copy(file, contextReader{ctx, body})
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		info, err = file.Stat()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = s.root.Remove(name)
		return "", nil, err
	}
	return name, info, nil
}

// makeFolder makes a folder and its parents, unless they exist, and puts their names on disk.
func (s *Store) makeFolder(folder string) error {
	if folder == "." {
		return nil
	}
	info, err := s.root.Lstat(folder)
	if err == nil && !info.IsDir() {
		return syscall.ENOTDIR
	}
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := path.Dir(folder)
	if err := s.makeFolder(parent); err != nil {
		return err
	}
	if err := s.root.Mkdir(folder, dirMode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return s.syncFolder(parent)
}

// syncFolder puts the names of the files and folders in a folder on disk.
func (s *Store) syncFolder(folder string) error {
	dir, err := regular.OpenFolder(s.root, folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed with what was in it by a Delete
	}
	if err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncFolder(dir), dir.Close())
}

// checkPlace returns an error if the name belongs to something that is no object and no folder: neither does it hold
// what was stored, nor may it be replaced.
func (s *Store) checkPlace(name string) error {
	if info, err := s.root.Lstat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %q is %s: remove it", blob.ErrRefused, name, kindOf(info.Mode()))
	}
	return nil
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// mapError turns an error of giving a file its name into the errors of package blob.
func (s *Store) mapError(err error, name string) error {
	info, statErr := s.root.Lstat(name)
	switch {
	case statErr == nil && info.IsDir():
		return fmt.Errorf("%w: %q is a folder of other objects: a local store cannot hold both; move the cluster's "+
			"history to an object store", blob.ErrRefused, name)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: a parent folder of %q is a file or a link: a local store cannot hold both; move the "+
			"cluster's history to an object store", blob.ErrRefused, name)
	case errors.Is(err, os.ErrExist):
		return os.ErrExist
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: %w", blob.ErrRefused, err)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: the file system of %s must allow hard links", err, s.dir)
	}
	return err
}

// Delete implements blob.Store. It also removes the folders that it leaves empty.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	name, err := FileName(key)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	_, err = s.statRegular(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.root.Remove(name)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if info, err := s.root.Lstat(folder); err != nil || !info.IsDir() || s.root.Remove(folder) != nil {
			break // not empty
		}
	}
	return nil
}

// mapReadError makes os.ErrNotExist of the errors of a path that leads through a file, of one that no file can have or
// that another machine has removed from NFS, unless the store as a whole is gone. A missing right is an AccessError.
func (s *Store) mapReadError(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, gone := os.Stat(s.dir); gone != nil {
			return fmt.Errorf("the store's folder cannot be used: %v: mount it, or restore it", gone)
		}
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return os.ErrNotExist
	case errors.Is(err, syscall.ESTALE):
		if _, gone := s.root.Stat("."); gone == nil {
			return os.ErrNotExist
		}
	case errors.Is(err, fs.ErrPermission):
		return &blob.AccessError{Err: err, Advice: "give this process's user the right to read all folders and files " +
			"below --local-dir (chmod, chown), or run it as their owner"}
	}
	return err
}

func objectOf(key string, info fs.FileInfo) blob.Object {
	o := blob.Object{Key: key, Size: info.Size(), ModTime: info.ModTime()}
	// Every write makes a new file, so the inode differs even if two writes have the same length and time.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		o.ETag = fmt.Sprintf("%x-%x-%x", info.ModTime().UnixNano(), o.Size, stat.Ino)
	}
	return o
}

// contextReader ends with the context's error once that is cancelled.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
