package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestCompactionEnds: blocks of which most is shipped are moved whole. Their copies, which are no smaller, are not
// moved again without end.
func TestCompactionEnds(t *testing.T) {
	opts := testOptions()
	disk := newFaultyDisk()
	opts.disk, opts.segmentBytes, opts.MaxBytes = disk, 1, 8_000
	s := reopen(t, t.TempDir(), opts)
	lines := func(stream string) []Lines {
		return []Lines{{stream, []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 10))}}
	}
	for _, stream := range []string{"a", "b", "c", "d", "e", "f"} {
		must.OK(t, s.Append(t.Context(), lines(stream)))
	}
	segments := 0
	disk.setFail(func(operation string) error {
		if operation != "create" {
			return nil
		}
		if segments++; segments > 100 {
			return syscall.EIO // or the test would not end
		}
		return nil
	})
	b, known := newStore(), map[string]bool{}
	for range 8 {
		for _, stream := range []string{"a", "b"} {
			must.Get(shipOne(s.findOrMakeStream(stream), b, 100, known, kept))(t)
		}
	}
	says.True(t, segments <= 2, "%d segments were written", segments)
}

// TestDeletedFiles: a program that cleans /tmp deletes the folder of an open spool, or a part of it. What waited there
// is lost and counted; what is answered for from then on is not, even after a crash.
func TestDeletedFiles(t *testing.T) {
	for name, test := range map[string]struct {
		deleted string
		lost    float64 // segments, if they hold something
	}{
		"the folder":     {".", 1},
		"its contents":   {"*", 1},
		"the segments":   {"*" + segmentSuffix, 1},
		"the lock":       {"lock", 0},
		"the positions":  {positionsFile, 0},
		"the quarantine": {quarantineDir, 0},
	} {
		for _, waits := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "spool")
				opts := testOptions()
				opts.Remake = func() error { return os.MkdirAll(dir, 0o700) }
				s := reopen(t, dir, opts)
				b := newStore()
				mustAppend(t, s, line("a", 1))
				drain(t, s, b, 1<<20)
				if waits {
					mustAppend(t, s, line("a", 2), line("b", 2))
				}
				files := must.Get(filepath.Glob(filepath.Join(dir, test.deleted)))(t)
				for _, f := range files {
					must.OK(t, os.RemoveAll(f))
				}
				kept := []string{line("a", 1)}
				want := test.lost
				if !waits {
					want = 0
				} else if want == 0 {
					kept = append(kept, line("a", 2), line("b", 2))
				}
				for i := 3; i < 6; i++ {
					for try := 0; s.Append(t.Context(), batchOf(line("a", i), line("b", i))) != nil; try++ {
						must.True(t, try <= 2, "nothing is kept any more")
					}
					kept = append(kept, line("a", i), line("b", i))
				}
				says.True(t, says.Err(Open(dir, testOptions())) != nil, "the folder belongs to two")
				_, err := shipOne(s.findOrMakeStream("a"), b, 1<<20, map[string]bool{}, lost)
				says.True(t, err == nil || errors.Is(err, errDamaged), err)
				s.die()
				says.Equal(t, count(s.metrics.damaged), want, "segments were lost")
				s = reopen(t, dir, opts)
				drain(t, s, b, 1<<20)
				checkStored(t, b, kept, 1)
				b.checkGaps(t)
			})
		}
	}
}

// TestClockThatIsSet: lines are due by the time that they waited, not by a clock that is set back meanwhile.
func TestClockThatIsSet(t *testing.T) {
	dir := t.TempDir()
	check := func(s *Spool) {
		t.Helper()
		_, oldest := s.Waiting(anyKey)
		_, _, pending := s.Streams()[0].Pending(1 << 20)
		for _, arrived := range []time.Time{oldest, pending} {
			if ahead := time.Until(arrived); ahead > 0 {
				t.Errorf("lines arrived in %v", ahead)
			}
			says.True(t, strings.Contains(arrived.String(), " m="),
				"%v has no monotonic reading, so the clock decides how long ago that is", arrived)
		}
	}
	s := reopen(t, dir, testOptions())
	mustAppend(t, s, line("b", 1))
	check(s)
	for _, st := range s.Streams() { // stored
		must.OK(t, st.Resume(0))
		st.Shipped(1 << 20)
	}
	ahead := must.Get(splitBatch([]Lines{{Stream: "a", Data: []byte(line("a", 2))}}))(t)
	must.OK(t, s.assignOffsets(ahead))
	// as by a clock that is a day ahead
	must.OK(t, says.Err(s.writeRecord(ahead, time.Now().Add(24*time.Hour).UnixNano())))
	must.OK(t, s.Close())
	s = reopen(t, dir, testOptions()) // the clock is right again
	check(s)
	mustAppend(t, s, line("b", 3))
	check(s)
}

// TestOlderPositionIsNotSaved: while a segment is deleted, another goroutine opens a chunk of a stream whose position
// is about to be saved.
func TestOlderPositionIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	b := newStore()
	mustAppend(t, s, line("a", 1), line("a", 2))
	st := s.Streams()[0]
	must.OK(t, st.Resume(0))
	older := st.nextPosition()
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
	must.True(t, s.Append(t.Context(), batchOf(line("a", 2))) != nil, "kept on a full disk")
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
	left := segments(t, dir)
	says.True(t, len(left) == 0, "segments are left: %v", left)
}
