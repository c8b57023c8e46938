package spool

import (
	"syscall"
	"testing"
)

// TestOlderPositionIsNotSaved: while a segment is deleted, another goroutine opens a chunk of a stream whose position is about to be saved.
func TestOlderPositionIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	b := newStore()
	mustAppend(t, s, line("a", 1), line("a", 2))
	st := s.Streams()[0]
	if err := st.Resume(0); err != nil {
		t.Fatal(err)
	}
	older := st.position()
	if _, err := shipOne(st, b, 1<<20, map[string]bool{}, lost); err != nil {
		t.Fatal(err)
	}
	if err := s.positions.save([]position{older}); err != nil {
		t.Fatal(err)
	}
	s.die()
	s = reopen(t, dir, testOptions())
	drain(t, s, b, 1<<20)
	checkStored(t, b, []string{line("a", 1), line("a", 2)}, 1)
}

// TestGapBehindPosition: a batch failed after everything of the stream was stored and deleted, and the process was killed before it saved a
// later position. The stored bytes have no gap.
func TestGapBehindPosition(t *testing.T) {
	dir := t.TempDir()
	opts := testOptions()
	disk := newFaultyDisk()
	opts.disk = disk
	s := reopen(t, dir, opts)
	b := newStore()
	mustAppend(t, s, line("a", 1))
	drain(t, s, b, 1<<20)
	disk.setFail(failing(syscall.ENOSPC, "write"))
	if err := s.Append(t.Context(), batchOf(line("a", 2))); err == nil {
		t.Fatal("kept on a full disk")
	}
	disk.setFail(nil)
	mustAppend(t, s, line("a", 3))
	s.die()
	s = reopen(t, dir, opts)
	drain(t, s, b, 1<<20)
	checkStored(t, b, []string{line("a", 1), line("a", 3)}, 1)
	if got, want := string(b.chunks["a"][int64(len(line("a", 1)))]), line("a", 3); got != want {
		t.Errorf("stored %v, want %q behind the first line", b.chunks["a"], want)
	}
}
