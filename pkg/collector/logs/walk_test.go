package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestManyUnreadable: of very many files that cannot be looked at, as in a folder that may be listed but not entered or
// on a disk that fails, some are told, and the others take no memory.
func TestManyUnreadable(t *testing.T) {
	dir := t.TempDir()
	const many = 5 * batchSize
	for i := range many {
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("worker-%d.out", i)), nil, 0o644))
	}
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	for err, forbidden := range map[error]int{syscall.EACCES: 1, syscall.EIO: 0} {
		statFile = func(*os.File, string) (unix.Stat_t, error) { return unix.Stat_t{}, err }
		t.Cleanup(func() { statFile = statIn })
		var w walkResult
		seen := 0
		must.OK(t, w.walkFolders(root, []string{"."}, visitor{files: func(files []seenFile) error {
			seen += len(files)
			return nil
		}}))
		says.True(t, seen == 0 && len(w.errs) <= batchSize && len(w.unseen) <= batchSize &&
			len(w.forbidden) == forbidden && w.incomplete == (forbidden == 0),
			"%v: %d errors, %d unseen, %d forbidden, incomplete: %t", err, len(w.errs), len(w.unseen), len(w.forbidden),
			w.incomplete)
	}
}

// TestManyFolders: of very many folders some are watched, and the others are scanned: whoever writes logs can make any
// number, and each watch takes memory.
func TestManyFolders(t *testing.T) {
	tailer, hook := newTailer(t)
	added := 0
	w := &watcher{t: tailer, watched: map[string]bool{}, add: func(string) error { added++; return nil },
		remove: func(string) error { added--; return nil }}
	for _, many := range []int{2 * maxWatched, 10} {
		dirs := []string{"."}
		for i := range many {
			dirs = append(dirs, fmt.Sprintf("session_2026-11-20_00-00-00_000000_1/logs/%d", i))
		}
		w.watchOnly(dirs)
		want := min(len(dirs), maxWatched)
		says.True(t, len(w.watched) == want && added == want && w.watched["."] && w.atLimit,
			"of %d folders %d are watched, at the limit: %t", len(dirs), len(w.watched), w.atLimit)
	}
	said := hook.AllEntries()
	says.True(t, len(said) == 1 && strings.Contains(said[0].Message, "not all log folders"), "the log has %v", said)
}

// TestFreshLines: a last line waits for its end after its log has grown, whatever clock gives the log its time.
func TestFreshLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
			f := &file{}
			f.updateSeen(time.Now(), seenFile{size: 10, changed: time.Now().Add(skew).UnixNano()})
			says.True(t, f.isFresh(), "clock off by %s: a line that was just written does not wait", skew)
			time.Sleep(lineWait + time.Second)
			f.updateSeen(time.Now(), f.seenFile)
			says.True(t, !f.isFresh(), "clock off by %s: it waits for longer than %s", skew, lineWait)
			f.updateSeen(time.Now(), seenFile{size: 11, changed: time.Now().Add(skew).UnixNano()})
			says.True(t, f.isFresh(), "clock off by %s: a line that grows does not wait", skew)
		}
	})
}
