package spool

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestOlderPositionIsNotSaved: while a segment is deleted, another goroutine opens a chunk of a stream whose position
// is about to be saved.
func TestOlderPositionIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	b := newStore()
	mustAppend(t, s, line("a", 1), line("a", 2))
	st := s.Streams()[0]
	must.OK(t, st.Resume(0))
	older := st.position()
	must.Get(shipOne(st, b, 1<<20, map[string]bool{}, lost))(t)
	must.OK(t, s.positions.save([]position{older}))
	s.die()
	s = reopen(t, dir, testOptions())
	drain(t, s, b, 1<<20)
	checkStored(t, b, []string{line("a", 1), line("a", 2)}, 1)
}

// TestGapBehindPosition: a batch failed after everything of the stream was stored and deleted, and the process was
// killed before it saved a later position. The stored bytes have no gap.
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

// TestEarlierVersion: a spool that an earlier version left is shipped completely, and nothing of it twice. The
// collector that wrote testdata/v1 was killed after it had shipped parts of three streams (testdata/v1/store) and lost
// the answers to the last of these uploads; a fourth stream kept its segments.
func TestEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1", "spool"))))
	b := must.Get(readFolder(filepath.Join("testdata", "v1", "store")))(t)
	s := reopen(t, dir, testOptions())
	drain(t, s, b, 1<<20)
	var want []string
	for i := range 12 {
		want = append(want, line("a", i), line(string(rune('b'+i%3)), i))
	}
	checkStored(t, b, want, 1)
	if n := count(s.metrics.rebased) + count(s.metrics.damaged) + count(s.metrics.torn) +
		count(s.metrics.foreign); n != 0 {
		t.Errorf("%v times something was not as expected", n)
	}
	if left := segments(t, dir); len(left) > 0 {
		t.Errorf("segments are left: %v", left)
	}
}
