package logs

import (
	"fmt"
	"io"
	"os"

	"github.com/rayhistory/historyserver/internal/seekable"
)

// section is a section of a log. A store may take minutes to read it, and the log may be truncated by then: what is
// written to it next must not be stored in the place of what was there.
type section struct {
	io.ReadSeeker
	size   int64
	opened *os.File
	file   *file
	prefix prefix // when it was opened
	tail   tail   // when it was looked at last before that
}

// Read returns the section's last bytes only if the file still has the bytes that identified it when it was opened.
// Then all bytes came from the same generation. Otherwise it returns an error, so that the store never gets a whole
// object of mixed bytes.
func (s *section) Read(p []byte) (int, error) {
	n, err := s.ReadSeeker.Read(p)
	at, _ := s.Seek(0, io.SeekCurrent)
	if err != nil || at < s.size {
		return n, err
	}
	if _, err := readUnchanged(s.opened, s.prefix, s.tail); err != nil {
		t := s.file.stream.tree
		t.lock.Lock()
		defer t.lock.Unlock()
		t.openFailed(s.file, err)
		return 0, fmt.Errorf("read log %s: %w", s.file.fullPath(), err)
	}
	return n, nil
}

func (s *section) Close() error { return s.opened.Close() }

// isCut says whether the last line of f may be cut: the collector ends, and Ray, as far as is known, still writes it.
func (s *stream) isCut(f *file) bool {
	if !s.tree.scans.draining || s.tree.ended || !f.isFresh() || s.tree.tailer.opts.Running == nil {
		return false
	}
	runs, err := s.tree.tailer.opts.Running(s.tree.session)
	return runs || err != nil
}

// Open implements ship.Source. The file is opened without the tree's lock being held for reads, and identified again by
// its bytes, since it may have been rotated or truncated after the last scan.
func (s *stream) Open(offset, n int64) (io.ReadSeekCloser, error) {
	s.tree.lock.Lock()
	f, at := s.current, s.fileOffset+offset-s.base // the place in the file of the stream's byte offset
	name, before, last := f.fullPath(), f.prefix, f.tail
	opened, info, err := s.tree.openLog(f)
	s.tree.lock.Unlock()
	var start []byte
	if err == nil {
		if start, err = readUnchanged(opened, before, last); err == nil && info.Size() < at+n {
			err = errChanged
		}
		if err != nil {
			_ = opened.Close()
		}
	}
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	if err != nil {
		s.tree.openFailed(f, err)
		return nil, fmt.Errorf("open log %s: %w", name, err)
	}
	s.handle(streamOpened)
	plain := func(from int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(opened, at+from, n-from)), nil
	}
	read := &section{seekable.New(n, plain), n, opened, f, prefixOf(start), last}
	if s.tree.tailer.opts.Redact != nil {
		read.ReadSeeker = s.tree.tailer.opts.Redact.Log(opened, at, n, info.Size(), s.isCut(f))
	}
	return read, nil
}
