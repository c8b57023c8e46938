package logs

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Key implements ship.Source.
func (s *stream) Key() string { return s.key }

// Unresumed says that Resume was not called yet, or could not use the listing.
func (s *stream) Unresumed() bool {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	return s.state == unlisted
}

// Resume implements ship.Source.
func (s *stream) Resume(stored int64) error {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	changed, err := s.resume(stored)
	if err != nil {
		s.on(streamUnusable)
		return err
	}
	s.on(streamListed)
	s.shrunk = 0
	s.updateAge()
	s.unsaved = s.unsaved || changed
	if s.unsaved || s.unread(s.current) == 0 {
		s.tree.wake() // Tailer.Sources has to look at it again
	}
	return nil
}

// Pending implements ship.Source. When the current file has no more, Tailer.Sources moves on to the next.
func (s *stream) Pending(limit int64) (offset, n int64, oldest time.Time) {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	if s.current.state == moved || s.unsaved {
		return s.pos, 0, time.Time{}
	}
	if s.state == unlisted {
		// It is not known yet where the stream continues, but the maximum number of pending bytes is.
		for _, f := range s.files {
			if unread := s.unread(f); unread > 0 {
				n += unread
				oldest = earlier(oldest, f.oldest)
			}
		}
		return s.pos, min(n, limit), oldest
	}
	if s.unread(s.current) == 0 {
		// The current file was finished while a chunk of it was in flight: whether that chunk is stored must be known first.
		if next := s.next(time.Now()); next != nil && s.state == inFlight {
			return s.pos, min(s.unread(next), limit), next.oldest
		}
		return s.pos, 0, time.Time{}
	}
	return s.pos, min(s.unread(s.current), limit), s.current.oldest
}

// Open implements ship.Source. The file is identified again, since it may have been rotated after the last scan.
func (s *stream) Open(offset, n int64) (io.ReadSeekCloser, error) {
	s.tree.lock.Lock()
	f, at := s.current, s.from+offset-s.base
	name, before := f.full(), f.prefix
	opened, info, err := s.tree.open(f)
	s.tree.lock.Unlock()
	var start []byte
	if err == nil {
		if start, err = readStart(opened); err == nil && (!before.begins(start) || info.Size() < at+n) {
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
	s.on(streamOpened)
	return &section{io.NewSectionReader(opened, at, n), opened, f, prefixOf(start)}, nil
}

// section is a section of a log. A store may take minutes to read it, and the log may be truncated by then: what is written to it next
// must not be stored in the place of what was there.
type section struct {
	*io.SectionReader
	opened *os.File
	file   *file
	prefix prefix // when it was opened
}

// Read returns the last bytes only if the file still begins as it did when it was opened. Then all bytes were read from the same
// generation, and otherwise the store never gets a whole object.
func (s *section) Read(p []byte) (int, error) {
	n, err := s.SectionReader.Read(p)
	at, _ := s.Seek(0, io.SeekCurrent)
	if err != nil || at < s.Size() {
		return n, err
	}
	start, err := readStart(s.opened)
	if err == nil && !s.prefix.begins(start) {
		err = errChanged
	}
	if err != nil {
		t := s.file.stream.tree
		t.lock.Lock()
		defer t.lock.Unlock()
		t.openFailed(s.file, err)
		return 0, fmt.Errorf("read log %s: %w", s.file.full(), err)
	}
	return n, nil
}

func (s *section) Close() error { return s.opened.Close() }

// Shipped implements ship.Source.
func (s *stream) Shipped(end int64) {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	s.pos, s.progress = end, time.Now()
	s.on(streamStored)
	s.updateAge()
}
