package spool

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// faultyDisk is a disk that fails when it is told to, and can lose what was not synced.
type faultyDisk struct {
	osDisk

	mu sync.Mutex
	// fail is asked before each operation that changes the disk: write, grow (a write behind a file's end), sync,
	// truncate, create, rename, remove, syncDir.
	fail   func(operation string) error
	during func() // is called in each operation, if it is set
	syncs  int
	synced map[string]int64 // bytes of a file that survive a power loss
	named  map[string]bool  // files whose names do
}

func newFaultyDisk() *faultyDisk {
	return &faultyDisk{synced: make(map[string]int64), named: make(map[string]bool)}
}

func (d *faultyDisk) try(operation string) error {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if operation == "sync" {
		d.syncs++
	}
	if d.fail == nil {
		return nil
	}
	return d.fail(operation)
}

func (d *faultyDisk) setFail(fail func(string) error) {
	d.mu.Lock()
	d.fail = fail
	d.mu.Unlock()
}

func (d *faultyDisk) setDuring(during func()) {
	d.mu.Lock()
	d.during = during
	d.mu.Unlock()
}

func (d *faultyDisk) wait() {
	d.mu.Lock()
	during := d.during
	d.mu.Unlock()
	if during != nil {
		during()
	}
}

func (d *faultyDisk) open(path string, flags int) (file, error) {
	if flags == os.O_RDONLY {
		d.wait()
		f, err := d.osDisk.open(path, flags)
		d.wait()
		return f, err
	}
	if flags&os.O_CREATE != 0 {
		if err := d.try("create"); err != nil {
			return nil, err
		}
	}
	f, err := d.osDisk.open(path, flags)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.synced[path], d.named[path] = info.Size(), flags != newFile
	d.mu.Unlock()
	return &faultyFile{file: f, disk: d, path: path}, nil
}

func (d *faultyDisk) rename(from, to string) error {
	if err := d.try("rename"); err != nil {
		return err
	}
	d.mu.Lock()
	d.synced[to], d.named[to] = d.synced[from], true
	delete(d.synced, from)
	d.mu.Unlock()
	return d.osDisk.rename(from, to)
}

func (d *faultyDisk) remove(path string) error {
	if err := d.try("remove"); err != nil {
		return err
	}
	return d.osDisk.remove(path)
}

func (d *faultyDisk) syncDir(dir string) error {
	if err := d.try("syncDir"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.named {
		if filepath.Dir(path) == dir {
			d.named[path] = true
		}
	}
	return nil
}

// losePower throws away what was not synced, or some of it: the disk may have written any part of it.
func (d *faultyDisk) losePower(t *testing.T, random *rand.Rand) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, synced := range d.synced {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must.OK(t, err)
		if !d.named[path] && random.IntN(2) == 0 {
			err = os.Remove(path)
		} else if info.Size() > synced {
			err = os.Truncate(path, synced+random.Int64N(info.Size()-synced+1))
		}
		must.OK(t, err)
	}
}

type faultyFile struct {
	file
	disk *faultyDisk
	path string
}

// WriteAt writes half of p before it fails, as a disk that fills up does.
func (f *faultyFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.disk.try("write")
	if info, statErr := os.Stat(f.path); err == nil && statErr == nil && offset+int64(len(p)) > info.Size() {
		err = f.disk.try("grow")
	}
	if err != nil {
		n, _ := f.file.WriteAt(p[:len(p)/2], offset)
		return n, err
	}
	return f.file.WriteAt(p, offset)
}

func (f *faultyFile) Sync() error {
	if err := f.disk.try("sync"); err != nil {
		return err
	}
	info, err := os.Stat(f.path)
	if err == nil {
		f.disk.mu.Lock()
		f.disk.synced[f.path] = info.Size()
		f.disk.mu.Unlock()
	}
	return nil
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.disk.try("truncate"); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

// failing is a fault that hits the given operations.
func failing(err error, operations ...string) func(string) error {
	return func(operation string) error {
		for _, o := range operations {
			if o == operation {
				return &fs.PathError{Op: operation, Path: "test", Err: err}
			}
		}
		return nil
	}
}

var (
	readOnly = failing(syscall.EROFS, "write", "sync", "truncate", "create", "rename", "remove", "syncDir")
	noSpace  = failing(syscall.ENOSPC, "grow", "create")
)

// fastDisk does not wait for the disk.
type fastDisk struct{ osDisk }

type fastFile struct{ file }

func (fastFile) Sync() error          { return nil }
func (fastDisk) syncDir(string) error { return nil }

func (d fastDisk) open(path string, flags int) (file, error) {
	f, err := d.osDisk.open(path, flags)
	if err != nil {
		return nil, err
	}
	return fastFile{f}, nil
}

// TestFailingDiskDoesNotFillTheLog: Ray sends a batch again each second while the disk fails.
func TestFailingDiskDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFaultyDisk()
		opts := testOptions()
		log, said := logtest.NewNullLogger()
		opts.disk, opts.Log = d, log
		s := reopen(t, t.TempDir(), opts)
		d.setFail(failing(syscall.EIO, "sync"))
		const batches = 100
		for range batches {
			err := s.Append(t.Context(), batchOf(line("a", 1)))
			must.True(t, errors.Is(err, syscall.EIO), "error %v", err)
		}
		lines, failures := len(said.AllEntries()), testutil.ToFloat64(s.metrics.syncErrors)
		says.True(t, lines == loggedAtOnce && failures == batches, "%d lines in the log about %v failures", lines,
			failures)
	})
}

// TestUnknownSize: where a file system does not know its size, as /proc, what it has free is not known: it is not full.
func TestUnknownSize(t *testing.T) {
	says.Equal(t, (osDisk{}).free("/proc"), restartGap, "bytes are free")
}
