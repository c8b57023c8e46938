package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

func newTailer(t *testing.T) (*Tailer, *logtest.Hook) {
	log, hook := logtest.NewNullLogger()
	return New(Options{
		Dir: t.TempDir(), StateDir: t.TempDir(), Log: log, Registerer: prometheus.NewRegistry(),
		Key:       func(session string, node rayid.Node, path string) string { return session + "/" + path },
		ListEmpty: func(string, rayid.Node, []byte) error { return nil },
		Node:      func(context.Context, string) (rayid.Node, error) { return rayid.Node{1}, nil },
	}), hook
}

func write(t *testing.T, tailer *Tailer, name string) {
	t.Helper()
	path := tailer.absolutePath("session_2026-11-20_00-00-00_000000_1/logs/" + name)
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte("text"), 0o644))
}

// TestManySessions: of more folders that are named like sessions than can be looked at, the newest are and the one that
// session_latest names, and a warning says so.
func TestManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, hook := newTailer(t)
		for i := range maxSessions + 2 {
			must.OK(t, os.Mkdir(tailer.absolutePath(fmt.Sprintf("session_2026-11-20_00-00-00_%06d_1", i)), 0o755))
		}
		for range 2 {
			sessions, latest, err := tailer.Sessions()
			says.True(t, err == nil && len(sessions) == maxSessions &&
				sessions[0].Name == "session_2026-11-20_00-00-00_000002_1" && latest == sessions[len(sessions)-1].Name,
				"%d sessions, the latest is %s: %v", len(sessions), latest, err)
		}
		const oldest = "session_2026-11-20_00-00-00_000000_1"
		must.OK(t, os.Symlink(oldest, tailer.absolutePath("session_latest")))
		if sessions, latest, err := tailer.Sessions(); err != nil || sessions[0].Name != oldest || latest != oldest {
			t.Errorf("session_latest names %s, and the latest is %s, the first %s: %v", oldest, latest, sessions[0].Name, err)
		}
		says.True(t, len(hook.Entries) == 1 && strings.Contains(hook.LastEntry().Message, "more than 10000 sessions"),
			"%v", hook.Entries)
	})
}

// TestWatchLimit: without a single watch everything is found by scans, and a warning names the setting.
func TestWatchLimit(t *testing.T) {
	for err, setting := range map[error]string{
		syscall.ENOSPC: "fs.inotify.max_user_watches",
		syscall.EMFILE: "fs.inotify.max_user_instances",
	} {
		synctest.Test(t, func(t *testing.T) {
			tailer, hook := newTailer(t)
			w := &watcher{t: tailer, watched: map[string]bool{}, add: func(string) error { return err }}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				tailer.scanAndWatch(ctx, w)
			}()
			for i := range 5 {
				write(t, tailer, string(rune('a'+i))+"/x.log")
				time.Sleep(rescan + time.Second)
				says.Equal(t, len(tailer.Sources()), i+1)
			}
			cancel()
			<-ended
			says.True(t, len(hook.AllEntries()) == 1 && strings.Contains(hook.LastEntry().Message, setting),
				"logged %v", hook.AllEntries())
		})
	}
}

// TestNotices: a notice brings a scan soon, and a flood of them no more than one a second.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, _ := newTailer(t)
		watched := map[string]int{}
		w := &watcher{t: tailer, watched: map[string]bool{}, events: make(chan fsnotify.Event),
			errors: make(chan error),
			add:    func(dir string) error { watched[dir]++; return nil },
			remove: func(dir string) error { watched[dir] = 0; return errors.New("gone") }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tailer.scanAndWatch(ctx, w)
		}()
		flood := make(chan struct{})
		go func() {
			for {
				select {
				case w.events <- fsnotify.Event{}:
				case w.errors <- fsnotify.ErrEventOverflow:
				case <-flood:
					return
				}
			}
		}()
		write(t, tailer, "x.log")
		time.Sleep(2 * minGap)
		says.Equal(t, len(tailer.Sources()), 1, "the log was not found soon")
		time.Sleep(time.Minute)
		close(flood)
		cancel()
		<-ended
		n := scans(t, tailer)
		says.True(t, n >= 50 && n <= 65, "%d scans in a minute", n)
		for _, dir := range []string{".", "session_2026-11-20_00-00-00_000000_1",
			"session_2026-11-20_00-00-00_000000_1/logs"} {
			if watched[tailer.absolutePath(dir)] != 1 {
				t.Errorf("%s is watched %d times", dir, watched[tailer.absolutePath(dir)])
			}
		}
		must.OK(t, os.RemoveAll(tailer.absolutePath("session_2026-11-20_00-00-00_000000_1")))
		dirs := must.Get(tailer.Scan(t.Context()))(t)
		w.watchOnly(dirs)
		says.True(t, watched[tailer.absolutePath("session_2026-11-20_00-00-00_000000_1/logs")] == 0 &&
			testutil.ToFloat64(tailer.metrics.watches) == 1, "a folder that is gone is still watched")
	})
}

func scans(t *testing.T, tailer *Tailer) uint64 {
	t.Helper()
	families := must.Get(tailer.opts.Registerer.(*prometheus.Registry).Gather())(t)
	for _, f := range families {
		if f.GetName() == "rayhistory_collector_logs_scan_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// TestStartAndClose: with real notices, a new log in a new folder of a new session is found.
func TestStartAndClose(t *testing.T) {
	tailer, _ := newTailer(t)
	tailer.Start()
	write(t, tailer, "deep/er/x.log")
	defer tailer.Close()
	for late := time.After(5 * time.Minute); len(tailer.Sources()) != 1; {
		select {
		case <-tailer.Notify():
		case <-late:
			t.Fatal("the log was not found")
		}
	}
}

// TestFolderMadeAgain: with real notices, a folder that is removed or moved away, and made again before the next scan,
// is watched again.
func TestFolderMadeAgain(t *testing.T) {
	for name, away := range map[string]func(dir string) error{
		"removed": os.RemoveAll, "moved": func(dir string) error { return os.Rename(dir, dir+"-old") },
	} {
		t.Run(name, func(t *testing.T) {
			tailer, _ := newTailer(t)
			w := newWatcher(tailer)
			if w.events == nil {
				t.Skip("this machine has no more watchers")
			}
			defer w.closeWatches()
			const file = "serve/x.log"
			write(t, tailer, file)
			w.watchOnly(must.Get(tailer.Scan(t.Context()))(t))
			session := tailer.absolutePath("session_2026-11-20_00-00-00_000000_1")
			must.OK(t, away(filepath.Join(session, "logs")))
			write(t, tailer, file)
			for !w.noted.paths["session_2026-11-20_00-00-00_000000_1/logs"].Has(fsnotify.Create) {
				w.noteArrived() // until the notices of all that came
			}
			w.noted = changes{}
			w.watchOnly(must.Get(tailer.Scan(t.Context()))(t))
			write(t, tailer, file)
			for late := time.Now().Add(time.Minute); len(w.noted.paths) == 0; w.noteArrived() {
				must.True(t, !time.Now().After(late), "no notice of a file in the folder")
			}
		})
	}
}

// TestDrain: many notices, handed over one by one, take one look.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tailer, _ := newTailer(t)
		w := &watcher{t: tailer, events: make(chan fsnotify.Event)}
		sent := 0
		go func() {
			for ; sent < 3000; sent++ {
				time.Sleep(time.Microsecond)
				w.events <- fsnotify.Event{Name: tailer.absolutePath(fmt.Sprint("worker.out", sent%10)), Op: fsnotify.Create}
			}
		}()
		w.noteArrived()
		synctest.Wait()
		says.True(t, sent == 3000 && len(w.noted.paths) == 10 && len(tailer.scanWanted) == 0,
			"%d of 3000 notices drained, of %d files, %d scans wanted", sent, len(w.noted.paths),
			len(tailer.scanWanted))
	})
}

// TestRepeatedErrorsAreThrottled: what fails at each scan is logged at once, and then every 30 s.
func TestRepeatedErrorsAreThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		harm func(tailer *Tailer) error
		line string
	}{
		"temporary folder": {
			func(tailer *Tailer) error {
				tailer.opts.Dir = filepath.Join(tailer.opts.Dir, "session_2026-11-20_00-00-00_000000_1/logs/x.log")
				return nil
			},
			"could not look for logs",
		},
		"state folder": {
			func(tailer *Tailer) error { return os.Remove(tailer.opts.StateDir) },
			"could not save the identities of logs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tailer, hook := newTailer(t)
				write(t, tailer, "x.log")
				must.OK(t, test.harm(tailer))
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { tailer.scanAndWatch(ctx, &watcher{t: tailer}) })
				time.Sleep(2*logthrottle.Gap + time.Second)
				cancel()
				running.Wait()
				scans := int(2*logthrottle.Gap/rescan) + 1
				lines, skipped := 0, 0
				for _, entry := range hook.AllEntries() {
					if strings.HasPrefix(entry.Message, test.line) {
						n, _ := entry.Data["skipped since the last line"].(int)
						lines, skipped = lines+1, skipped+n
					}
				}
				says.True(t, lines == 3 && lines+skipped == scans,
					"%d lines, which say that %d were skipped, of %d scans", lines, skipped, scans)
			})
		})
	}
}
