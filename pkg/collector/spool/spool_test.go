package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func mustAppend(t testing.TB, s *Spool, lines ...string) {
	t.Helper()
	must.OK(t, s.Append(t.Context(), batchOf(lines...)))
}

// checkStored compares what is stored with the lines that were kept: none missing, none stored more than `most` times.
func checkStored(t *testing.T, b *store, lines []string, most int) {
	t.Helper()
	stored := b.lines()
	for _, l := range lines {
		stream := batchOf(l)[0].Stream
		n := stored[stream+": "+l]
		says.True(t, n != 0 && n <= most, "%q is stored %d times", l, n)
		delete(stored, stream+": "+l)
	}
	says.True(t, len(stored) == 0, "stored but never kept: %v", stored)
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)))(t)
}

func TestAppendAndShip(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	b := newStore()
	mustAppend(t, s, line("a", 1), line("a", 2), line("b", 1))
	select {
	case <-s.Notify():
	default:
		t.Error("nobody was told")
	}
	mustAppend(t, s, line("a", 3))
	n := len(s.Streams())
	must.True(t, n == 2, "%d streams, want 2", n)
	if n, oldest := s.Waiting(anyKey); n != int64(4*len(line("a", 1))) || oldest.IsZero() {
		t.Errorf("%d bytes wait since %v", n, oldest)
	}
	drain(t, s, b, 1<<20)
	checkStored(t, b, []string{line("a", 1), line("a", 2), line("a", 3), line("b", 1)}, 1)
	says.Equal(t, string(b.chunks["a"][0]), line("a", 1)+line("a", 2)+line("a", 3), "a")
	if left := segments(t, dir); len(left) > 0 || s.used != 0 || s.Streams() != nil {
		t.Errorf("a spool at rest holds %v, %d bytes", left, s.used)
	}
	if n, oldest := s.Waiting(anyKey); n != 0 || !oldest.IsZero() {
		t.Errorf("%d bytes wait in a spool at rest since %v", n, oldest)
	}
	// The stream goes on where it ended, without another listing.
	mustAppend(t, s, line("a", 4))
	shipped, err := shipOne(s.Streams()[0], b, 1<<20, map[string]bool{"a": true}, kept)
	must.True(t, shipped && err == nil, "%v %v", shipped, err)
	says.True(t, string(b.chunks["a"][int64(len(line("a", 1))*3)]) == line("a", 4), "a is %v", b.chunks["a"])
}

func TestPieceMustBeLines(t *testing.T) {
	s := reopen(t, t.TempDir(), testOptions())
	for _, p := range []Lines{{"", []byte("x\n")}, {"a", nil}, {"a", []byte("x")},
		{strings.Repeat("k", maxKeyBytes+1), []byte("x\n")}} {
		says.True(t, s.Append(t.Context(), []Lines{{"a", []byte("good\n")}, p}) != nil, "%.20q %q was kept", p.Stream,
			p.Data)
	}
	says.True(t, s.Streams() == nil, "a part of a refused batch was kept")
	must.OK(t, s.Append(t.Context(), nil))
}

func TestLongPiecesAreCutBetweenLines(t *testing.T) {
	s := reopen(t, t.TempDir(), testOptions())
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("{\"whole\": \"a\", \"event\": \"%d%s\"}\n", i, strings.Repeat("x", 10_000)))
	}
	long := fmt.Sprintf("{\"whole\": \"a\", \"event\": \"%s\"}\n", strings.Repeat("y", 3<<20))
	lines = append(lines, long)
	must.OK(t, s.Append(t.Context(), []Lines{{"a", []byte(strings.Join(lines, ""))}}))
	st := s.Streams()[0]
	_, n, _ := st.Pending(2 << 20)
	says.True(t, n <= 2<<20 && n >= 1<<20, "%d bytes are pending of at most 2 MiB", n)
	b := newStore()
	drain(t, s, b, 2<<20)
	checkStored(t, b, lines, 1)
	says.True(t, len(b.chunks["a"]) >= 3, "%d chunks", len(b.chunks["a"]))
}

// TestSmallChunks: a store that takes little at a time gets a batch in parts, cut between lines, over restarts and lost
// answers; damage costs what was damaged.
func TestSmallChunks(t *testing.T) {
	dir := t.TempDir()
	opts := testOptions()
	opts.disk = fastDisk{}
	s := reopen(t, dir, opts)
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("{\"whole\": \"a\", \"event\": \"%d%s\"}\n", i, strings.Repeat("x", 1000)))
	}
	lines = append(lines, fmt.Sprintf("{\"whole\": \"a\", \"event\": \"%s\"}\n", strings.Repeat("y", 80<<10)),
		line("a", 1))
	must.OK(t, s.Append(t.Context(), []Lines{{"a", []byte(strings.Join(lines, ""))}}))
	b, known := newStore(), map[string]bool{}
	for i := range 3 {
		for range 2 {
			must.Get(shipOne(s.Streams()[0], b, 20<<10, known, []answer{kept, refused, lost}[i]))(t)
		}
		must.OK(t, s.Close())
		s, known = reopen(t, dir, opts), map[string]bool{}
	}
	damage(t, segments(t, dir)[0], lines[299])
	drain(t, s, b, 20<<10)
	checkStored(t, b, lines[:len(b.lines())], 1)
	for offset, chunk := range b.chunks["a"] {
		says.True(t, len(chunk) <= 20<<10 || bytes.Count(chunk, []byte("\n")) <= 1, "%d bytes at %d", len(chunk),
			offset)
	}
	n := len(b.lines())
	says.True(t, n >= 40 && n < 299, "%d lines are stored of a block that was damaged", n)
	must.OK(t, s.Append(t.Context(), []Lines{{"b", []byte(strings.ReplaceAll(strings.Join(lines, ""), `"a"`, `"b"`))}}))
	drain(t, s, b, 20<<10)
	stored := b.lines()
	for _, l := range lines {
		if l = strings.ReplaceAll(l, `"a"`, `"b"`); stored["b: "+l] != 1 {
			t.Errorf("%.60q… is stored %d times", l, stored["b: "+l])
		}
	}
}

func TestReaderSeeks(t *testing.T) {
	began := time.Now()
	s := reopen(t, t.TempDir(), testOptions())
	var want []byte
	for i := range 500 {
		mustAppend(t, s, line("a", i), line("b", i))
		want = append(want, line("a", i)...)
	}
	var st *Stream
	for _, st = range s.Streams() {
		if st.Key() == "a" {
			break
		}
	}
	says.True(t, says.Err(st.Open(0, 10)) != nil, "opened before it was resumed")
	must.OK(t, st.Resume(0))
	offset, n, oldest := st.Pending(1 << 20)
	must.True(t, offset == 0 && n == int64(len(want)) && !oldest.Before(began) && !oldest.After(time.Now()),
		"pending %d bytes at %d since %v, want %d", n, offset, oldest, len(want))
	says.True(t, says.Err(st.Open(0, n+1)) != nil, "opened more than there is")
	r := must.Get(st.Open(0, n))(t)
	defer func() { _ = r.Close() }()
	for _, at := range []int64{0, n - 5, 17, n, 4000} {
		if got, err := r.Seek(at-n, io.SeekEnd); got != at || err != nil {
			t.Fatalf("seek to %d, %v", got, err)
		}
		got, err := io.ReadAll(r)
		must.True(t, err == nil && bytes.Equal(got, want[at:]), "from %d: %d bytes, %v", at, len(got), err)
	}
	says.True(t, says.Err(r.Seek(-1, io.SeekStart)) != nil, "seeked before the start")
}

// TestCommitIsShared: batches that come while the disk syncs share the next sync.
func TestCommitIsShared(t *testing.T) {
	disk := newFaultyDisk()
	entered, proceed := make(chan struct{}), make(chan struct{})
	var first sync.Once
	opts := testOptions()
	opts.disk = disk
	s := reopen(t, t.TempDir(), opts)
	disk.setFail(func(operation string) error {
		if operation == "sync" {
			first.Do(func() {
				disk.mu.Unlock()
				close(entered)
				<-proceed
				disk.mu.Lock()
			})
		}
		return nil
	})
	var appends sync.WaitGroup
	start := func(i int) { appends.Go(func() { mustAppend(t, s, line("a", i)) }) }
	start(0)
	<-entered
	for i := range 20 {
		start(i + 1)
	}
	must.Happen(t, "that all wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.commit.spans) == 20
	})
	says.True(t, s.Streams() == nil, "shown before it was durable")
	close(proceed)
	appends.Wait()
	says.Equal(t, disk.syncs, 2, "21 batches took")
}

func TestFullAndAgainNot(t *testing.T) {
	opts := testOptions()
	opts.MaxBytes = 2000
	s := reopen(t, t.TempDir(), opts)
	b := newStore()
	var lines []string
	var err error
	for i := 0; err == nil; i++ {
		if err = s.Append(t.Context(), batchOf(line("a", i))); err == nil {
			lines = append(lines, line("a", i))
		}
	}
	must.True(t, errors.Is(err, ErrFull) && len(lines) >= 5 && s.used <= opts.MaxBytes,
		"%v after %d lines and %d bytes", err, len(lines), s.used)
	says.Equal(t, count(s.metrics.failed.WithLabelValues("full")), 1, "counted")
	drain(t, s, b, 1<<20)
	mustAppend(t, s, line("a", 1000))
	drain(t, s, b, 1<<20)
	checkStored(t, b, append(lines, line("a", 1000)), 1)
	says.ErrorIs(t, s.Append(t.Context(), []Lines{{"a", append(make([]byte, 3000), '\n')}}), ErrTooLarge, "ErrTooLarge")
}

// TestSlowWhole: a stream that is not shipped does not hold on to what is shipped beside it.
func TestSlowWhole(t *testing.T) {
	opts := testOptions()
	opts.MaxBytes, opts.segmentBytes = 200_000, 10_000
	dir := t.TempDir()
	s := reopen(t, dir, opts)
	b, known := newStore(), make(map[string]bool)
	var lines []string
	fast := func(i int) string {
		return fmt.Sprintf("{\"whole\": \"fast\", \"event\": \"%d %s\"}\n", i, strings.Repeat("x", 2000))
	}
	for i := range 400 {
		mustAppend(t, s, line("slow", i), fast(i), line("slower", i))
		lines = append(lines, line("slow", i), fast(i), line("slower", i))
		for _, st := range s.Streams() {
			if st.Key() == "fast" {
				must.Get(shipOne(st, b, 1<<20, known, kept))(t)
			}
		}
	}
	// The moved blocks survive a restart, in their order.
	must.OK(t, s.Close())
	s = reopen(t, dir, opts)
	drain(t, s, b, 1<<20)
	checkStored(t, b, lines, 1)
	var slow strings.Builder
	for i := range 400 {
		slow.WriteString(line("slow", i))
	}
	says.Equal(t, string(b.chunks["slow"][0]), slow.String(), "the slow stream's lines are not in order")
}

func TestTooManyWholes(t *testing.T) {
	s := reopen(t, t.TempDir(), testOptions())
	list := make([]Lines, maxStreams+1)
	for i := range list {
		list[i] = Lines{fmt.Sprint("stream ", i), []byte("x\n")}
	}
	err := s.Append(t.Context(), list)
	must.True(t, errors.Is(err, ErrFull), "%v, want ErrFull", err)
	must.True(t, s.Streams() == nil, "a part of a refused batch is kept")
	mustAppend(t, s, line("a", 1))
}

// TestMoreStreamsOnDisk: a segment with more streams than may wait together with those of the segments before it, which
// are there again because they could not be deleted, is read as any other.
func TestMoreStreamsOnDisk(t *testing.T) {
	dir, later := t.TempDir(), t.TempDir()
	list := make([]Lines, maxStreams)
	for i := range list {
		list[i] = Lines{fmt.Sprint("stream ", i), []byte("x\n")}
	}
	s := reopen(t, dir, testOptions())
	must.OK(t, s.Append(t.Context(), list))
	must.OK(t, s.Close())
	s = reopen(t, later, testOptions())
	mustAppend(t, s, line("a", 1))
	must.OK(t, s.Close())
	must.OK(t, os.Rename(segments(t, later)[0], filepath.Join(dir, segmentName(1000))))
	s = reopen(t, dir, testOptions())
	says.True(t, len(s.Streams()) == maxStreams+1 && len(quarantined(t, dir)) == 0, "%d streams wait, %v set aside",
		len(s.Streams()), quarantined(t, dir))
	says.ErrorIs(t, s.Append(t.Context(), batchOf(line("b", 1))), ErrFull, "another stream")
}

// TestDiskFaults: whatever operation of a batch fails, and however often, the batch is refused, nothing else is hurt,
// and when the disk is well again so is the spool.
func TestDiskFaults(t *testing.T) {
	for _, operation := range []string{"write", "sync", "create", "syncDir", "truncate", "write sync truncate",
		"write remove", "sync truncate"} {
		for _, fault := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
			t.Run(operation+" "+fault.Error(), func(t *testing.T) {
				dir, disk, opts := t.TempDir(), newFaultyDisk(), testOptions()
				opts.disk, opts.segmentBytes = disk, 300
				s := reopen(t, dir, opts)
				b := newStore()
				var lines []string
				refused := 0
				for i := range 40 {
					disk.setFail(nil)
					if i%3 == 1 {
						disk.setFail(failing(fault, strings.Fields(operation)...))
					}
					if i == 20 {
						disk.setFail(nil)
						drain(t, s, b, 1<<20)
					}
					err := s.Append(t.Context(), batchOf(line("a", i), line("b", i)))
					if err == nil {
						lines = append(lines, line("a", i), line("b", i))
						continue
					}
					refused++
					must.True(t, errors.Is(err, ErrFull) == (fault == syscall.ENOSPC), "%v: full %v", err,
						errors.Is(err, ErrFull))
				}
				says.Equal(t, refused == 0, operation == "truncate", "%d batches were refused", refused)
				disk.setFail(nil)
				drain(t, s, b, 1<<20)
				checkStored(t, b, lines, 1)
				left := segments(t, dir)
				says.True(t, len(left) == 0, "left %v", left)
			})
		}
	}
}

// TestDiskThatTakesNothing: what is spooled is shipped all the same, and the spool empties, also where no byte is left
// for a position.
func TestDiskThatTakesNothing(t *testing.T) {
	for name, fail := range map[string]func(operation string) error{"read-only": readOnly, "full": noSpace} {
		disk, opts := newFaultyDisk(), testOptions()
		opts.disk = disk
		dir := t.TempDir()
		s := reopen(t, dir, opts)
		b := newStore()
		mustAppend(t, s, line("a", 1))
		if name == "read-only" { // the position is saved
			must.Get(shipOne(s.Streams()[0], b, 1<<20, map[string]bool{}, refused))(t)
		}
		disk.setFail(fail)
		err := s.Append(t.Context(), batchOf(line("a", 2)))
		must.True(t, err != nil && errors.Is(err, ErrFull) == (name == "full"), "%s: %v", name, err)
		drain(t, s, b, 1<<20)
		checkStored(t, b, []string{line("a", 1)}, 1)
		disk.setFail(nil)
		mustAppend(t, s, line("a", 3))
		drain(t, s, b, 1<<20)
		checkStored(t, b, []string{line("a", 1), line("a", 3)}, 1)
		left := segments(t, dir)
		says.True(t, len(left) == 0, "%s: left %v", name, left)
	}
}

func TestOneProcessAFolder(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	_, err := Open(dir, testOptions())
	must.True(t, err != nil && strings.Contains(err.Error(), "another collector"), "%v", err)
	must.OK(t, s.Close())
	says.ErrorIs(t, s.Append(context.Background(), batchOf(line("a", 1))), errClosed, "errClosed")
	reopen(t, dir, testOptions())
}

// TestLockAdvice: only a lock that is taken is another collector's.
func TestLockAdvice(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EWOULDBLOCK: "another collector", syscall.ENOSYS: "locks no files", syscall.ENOLCK: "locks no files",
		syscall.EOPNOTSUPP: "locks no files",
	} {
		got := lockAdvice(err)
		says.True(t, strings.Contains(got, want), "%v: %s", err, got)
	}
}

func TestOpenRefuses(t *testing.T) {
	opts := testOptions()
	opts.MaxBytes = 1 << 50
	says.True(t, says.Err(Open(t.TempDir(), opts)) != nil, "opened with an absurd limit")
	path := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(path, nil, 0o600))
	says.Error(t, says.Err(Open(path, testOptions())), "may write")
}
