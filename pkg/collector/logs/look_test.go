package logs

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const lookedAt = "session_2026-11-20_00-00-00_000000_1"

// grow makes a log longer, and makes its folder if needed.
func grow(t *testing.T, tailer *Tailer, name, text string) (notice fsnotify.Event) {
	t.Helper()
	p := tailer.absolutePath(path.Join(lookedAt, "logs", name))
	err := os.MkdirAll(path.Dir(p), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(p, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	must.OK(t, err)
	return fsnotify.Event{Name: p, Op: fsnotify.Write}
}

// waiting are the logs that have something to ship.
func waiting(tailer *Tailer) (names []string) {
	for _, s := range tailer.Sources() {
		names = append(names, strings.TrimPrefix(s.Key(), lookedAt+"/"))
	}
	slices.Sort(names)
	return names
}

// stored lets everything be stored.
func stored(t *testing.T, tailer *Tailer) {
	t.Helper()
	for _, source := range tailer.Sources() {
		if source.Unresumed() {
			must.OK(t, source.Resume(0))
		}
		if offset, n, _ := source.Pending(1 << 20); n > 0 {
			source.Shipped(offset + n)
		}
	}
}

// TestLookDuringScan: what notices name is ready to be stored before the scan that is under way ends, and the scan
// does not undo it.
func TestLookDuringScan(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tailer, _ := newTailer(t)
			for _, name := range []string{"x.out", "empty.err", "a/b/y.out"} {
				grow(t, tailer, name, strings.Repeat(name, 5*(1-strings.Count(name, "empty"))))
			}
			must.Get(tailer.Scan(t.Context()))(t)
			stored(t, tailer)
			w := &watcher{t: tailer, watched: map[string]bool{}, events: make(chan fsnotify.Event, 9),
				atLimit: !watched}
			var during []string
			w.add = func(dir string) error {
				switch strings.TrimPrefix(dir, tailer.absolutePath(lookedAt)) {
				case "/logs/a": // the files beside it were seen
					for _, name := range []string{"x.out", "new.out", "empty.err"} {
						w.events <- grow(t, tailer, name, "more\n")
					}
					time.Sleep(minGap)
				case "/logs/a/b":
					during = waiting(tailer)
				}
				return nil
			}
			must.Get(tailer.scanSessions(t.Context(), w))(t)
			want := []string{"empty.err", "new.out", "x.out"}
			says.True(t, slices.Equal(during, want) && slices.Equal(waiting(tailer), want),
				"watched %t: %q wait during the scan, and %q after it", watched, during, waiting(tailer))
			stored(t, tailer)
			if bytes, _ := tailer.Waiting(); bytes > 0 || len(tailer.scanWanted) > 0 ||
				testutil.ToFloat64(tailer.metrics.generations) > 0 {
				t.Errorf("%d bytes wait, %d scans are wanted", bytes, len(tailer.scanWanted))
			}
		})
	}
}

// TestLookBetweenScans: notices bring a look at the files they name, and a scan only for what a look cannot tell.
func TestLookBetweenScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, _ := newTailer(t)
		grow(t, tailer, "x.out", strings.Repeat("the first line of x", 5))
		grow(t, tailer, "empty.err", "")
		w := &watcher{t: tailer, watched: map[string]bool{}, events: make(chan fsnotify.Event, 9),
			add: func(string) error { return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tailer.scanAndWatch(ctx, w)
		}()
		time.Sleep(2 * minGap)
		for i, test := range []struct {
			happens func()
			waits   []string
			scanned bool
		}{
			{func() { w.events <- grow(t, tailer, "x.out", "more\n") }, []string{"x.out"}, false},
			{func() { w.events <- grow(t, tailer, "new.out", "new\n") }, []string{"new.out"}, false},
			{func() { w.events <- grow(t, tailer, "empty.err", "now\n") }, []string{"empty.err"}, false},
			{func() { w.events <- grow(t, tailer, "another.err", "") }, nil, false},
			{func() { w.events <- grow(t, tailer, "another.err", "now\n") }, []string{"another.err"}, false},
			{func() {
				grow(t, tailer, "new/x.out", "in a folder that no scan has seen\n")
				w.events <- fsnotify.Event{Name: tailer.absolutePath(lookedAt + "/logs/new"), Op: fsnotify.Create}
			}, []string{"new/x.out"}, true},
			{func() {
				must.OK(t, os.Truncate(grow(t, tailer, "x.out", "").Name, 0))
				w.events <- grow(t, tailer, "x.out", strings.Repeat("x again", 5))
			}, []string{"x.out"}, true},
			{func() {
				from := grow(t, tailer, "new.out", "").Name
				must.OK(t, os.Rename(from, from+".1"))
				w.events <- fsnotify.Event{Name: from, Op: fsnotify.Rename}
				w.events <- fsnotify.Event{Name: from + ".1", Op: fsnotify.Create}
				w.events <- grow(t, tailer, "new.out", "after the rotation\n")
			}, []string{"new.out"}, true},
		} {
			stored(t, tailer)
			before := scans(t, tailer)
			for ; scans(t, tailer) == before; time.Sleep(minGap) { // until the next one is far
			}
			before = scans(t, tailer)
			test.happens()
			time.Sleep(5 * minGap)
			if got := waiting(tailer); !slices.Equal(got, test.waits) || (scans(t, tailer) > before) != test.scanned {
				t.Errorf("%d: %q wait, want %q; %d scans", i, got, test.waits, scans(t, tailer)-before)
			}
		}
		cancel()
		<-ended
	})
}

// TestGone: a log that was written and removed between two looks is counted, and its name is logged. Other files that
// are missing are none of those.
func TestGone(t *testing.T) {
	tailer, hook := newTailer(t)
	grow(t, tailer, "followed.out", strings.Repeat("the first line", 5))
	must.Get(tailer.Scan(t.Context()))(t)
	tree := tailer.treeOf(lookedAt)
	dir := tree.followedFiles()[0].dir
	tree.idle.files[keyOfPath(dir, "idle.out")] = idleFile{prefixSize: 5}
	tree.idle.files[keyOfPath(dir, "again.out")] = idleFile{prefixSize: 5}
	tree.idle.files[keyOfPath(dir, "empty.out")] = idleFile{}
	w := &watcher{t: tailer}
	happened := func(name string, all ...fsnotify.Op) {
		for _, op := range all {
			w.noteChange(fsnotify.Event{Name: tailer.absolutePath(lookedAt + "/logs/" + name), Op: op})
		}
	}
	happened("gone.out", fsnotify.Create, fsnotify.Write, fsnotify.Write, fsnotify.Remove)
	happened("idle.out", fsnotify.Write, fsnotify.Remove) // at most its last lines are lost
	happened("again.out", fsnotify.Remove, fsnotify.Create, fsnotify.Write, fsnotify.Remove)
	happened("empty.out", fsnotify.Write, fsnotify.Remove)
	happened("empty.err", fsnotify.Create, fsnotify.Remove)
	happened("moved.tmp", fsnotify.Create, fsnotify.Write, fsnotify.Rename)
	happened("debug_state.txt", fsnotify.Write, fsnotify.Remove)
	happened("core.123", fsnotify.Create, fsnotify.Write, fsnotify.Remove)
	happened("followed.out", fsnotify.Write, fsnotify.Remove) // made again, so it is there
	w.lookAtNoted(func(c changes) { tailer.lookAt(t.Context(), c) })
	if got := testutil.ToFloat64(tailer.metrics.gone); got != 3 || len(hook.AllEntries()) != 3 ||
		!slices.Contains([]any{"gone.out", "again.out", "empty.out"}, hook.LastEntry().Data["log"]) {
		t.Errorf("%v logs are lost, logged %v", got, hook.AllEntries())
	}
}

// TestKnownLogsAreDue: what a log has more than an earlier collector knew may have waited for long, so it is due at
// once.
func TestKnownLogsAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, _ := newTailer(t)
		grow(t, tailer, "x.out", strings.Repeat("the first line of x", 5))
		must.Get(tailer.Scan(t.Context()))(t)
		tailer.opts.PushInterval, tailer.opts.Registerer = time.Minute, prometheus.NewRegistry()
		again := New(tailer.opts) // the first one was killed
		for ; len(waiting(again)) == 0; time.Sleep(time.Second) {
			grow(t, tailer, "x.out", "more\n")
			must.OK(t, again.LookAtFollowed(t.Context()))
		}
		_, n, oldest := again.Sources()[0].Pending(1 << 20)
		says.True(t, n == 100 && time.Since(oldest) >= time.Minute, "%d bytes wait, since %s", n, time.Since(oldest))
	})
}

// TestScanThatIsEnded: a scan ends with its context, in the middle, and the next one sees everything.
func TestScanThatIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, _ := newTailer(t)
		for i := range 2 * batchSize {
			grow(t, tailer, fmt.Sprintf("a/worker-%d.err", i), "")
		}
		grow(t, tailer, "a/b/x.out", "text")
		ctx, cancel := context.WithCancel(t.Context())
		w := &watcher{t: tailer, watched: map[string]bool{}, add: func(dir string) error {
			if path.Base(dir) == "a" {
				cancel()
			}
			return nil
		}}
		_, err := tailer.scanSessions(ctx, w)
		says.True(t, err != nil && len(tailer.Sources()) == 0, "error %v, %d logs wait", err, len(tailer.Sources()))
		_, err = tailer.Scan(t.Context())
		says.True(t, err == nil && len(tailer.Sources()) == 1, "error %v, %d logs wait", err, len(tailer.Sources()))
		tree := tailer.allTrees()[0]
		says.Equal(t, len(tree.idle.files), 2*batchSize, "empty logs")
	})
}
