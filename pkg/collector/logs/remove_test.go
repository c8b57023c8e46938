package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

// quiet adds a log that was last written to an hour ago, and a newer session, and has what is stored removed.
func (r *rig) quiet() {
	r.deleteShipped = true
	must.OK(r.t, os.MkdirAll(filepath.Join(r.tmp, "session_2026-12-31_00-00-00_000000_1"), 0o755))
	r.write("worker.out", first("a"))
	r.age("worker.out", time.Hour)
	r.restart()
}

func (r *rig) age(name string, by time.Duration) {
	past := time.Now().Add(-by)
	must.OK(r.t, os.Chtimes(r.path(name), past, past))
}

func (r *rig) isThere(name string) bool {
	_, err := os.Stat(r.path(name))
	return err == nil
}

// TestOnlyEndedSessionsAreRemoved: a link condemns no session. Its raylet does.
func TestOnlyEndedSessionsAreRemoved(t *testing.T) {
	for _, latest := range []string{"", "session_2026-12-31_00-00-00_000000_1", "/tmp/ray/session_9999-nowhere",
		"session_latest"} {
		for _, running := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if latest != "" {
					must.OK(t, os.Symlink(latest, filepath.Join(r.tmp, "session_latest")))
				}
				r.running = running
				r.quiet()
				r.shipAll()
				r.scan()
				if got := r.isThere("worker.out"); got != running {
					t.Errorf("session_latest is %q, the session runs: %t: the log is there: %t", latest, running, got)
				}
				r.want("worker.out", first("a"))
			})
		}
	}
}

// TestSparedSessions: the session that session_latest names and the newest keep their logs, though no raylet of them
// can be seen, as of another container. The others do not.
func TestSparedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.deleteShipped = true
		past := time.Now().Add(-time.Hour)
		const linked, newest = "session_2026-02-01_00-00-00_000000_1", "session_2026-12-31_00-00-00_000000_1"
		removed := map[string]bool{"session_2026-01-01_00-00-00_000000_1": true, linked: false, session: true, newest: false}
		for name := range removed {
			log := filepath.Join(r.tmp, name, "logs", "worker.out")
			must.OK(t, os.MkdirAll(filepath.Dir(log), 0o755))
			must.OK(t, os.WriteFile(log, []byte(first("a")), 0o644))
			must.OK(t, os.Chtimes(log, past, past))
		}
		must.OK(t, os.Symlink(linked, filepath.Join(r.tmp, "session_latest")))
		r.restart()
		r.shipAll()
		r.scan()
		for name, want := range removed {
			_, err := os.Stat(filepath.Join(r.tmp, name, "logs", "worker.out"))
			says.Equal(t, os.IsNotExist(err), want, name+": its log was removed")
		}
	})
}

// TestRemovedWhileInUse: no line is lost of a process that outlives its raylet.
func TestRemovedWhileInUse(t *testing.T) {
	for name, hidden := range map[string]bool{"use is seen": false, "use is hidden": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.quiet()
				writer := must.Get(os.OpenFile(r.path("worker.out"), os.O_WRONLY|os.O_APPEND, 0))(t)
				defer writer.Close()
				r.write("other.out", first("b"))
				r.age("other.out", time.Hour)
				if hidden {
					logs.HideUse(t)
				} else if f, err := os.Open(r.path("worker.out")); err != nil || !logs.CanSeeUse(f) {
					t.Skipf("this file system gives no leases (%v)", err)
				}
				r.restart()
				r.shipAll()
				r.scan()
				says.True(t, r.isThere("worker.out") != hidden && r.isThere("other.out") != hidden,
					"the log in use is there: %t, the other: %t", r.isThere("worker.out"), r.isThere("other.out"))
				for _, line := range []string{"late\n", "later\n"} {
					time.Sleep(time.Minute)
					must.Get(writer.WriteString(line))(t)
					r.shipAll()
				}
				r.want("worker.out", first("a")+"late\nlater\n")
				must.OK(t, writer.Close())
				if !hidden {
					r.age("worker.out", time.Hour)
				}
				time.Sleep(5 * time.Minute)
				r.shipAll()
				says.True(t, !r.isThere("worker.out") && !r.isThere("other.out"),
					"a log that nobody uses any more is still there")
				r.want("worker.out", first("a")+"late\nlater\n")
			})
		})
	}
}

// TestManyRemovedLogs: the logs of many ended sessions that may still be written to are removed some at a time, because
// each stays open for a while.
func TestManyRemovedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.quiet()
		logs.HideUse(t)
		var paths []string
		for i := range 4 {
			for j := range logs.MaxRemoved / 2 {
				path := filepath.Join(r.tmp, fmt.Sprintf("session_2026-11-2%d_00-00-00_000000_1", i), "logs",
					fmt.Sprintf("worker-%d.out", j))
				paths = append(paths, path)
				past := time.Now().Add(-time.Hour)
				must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.OK(t, os.WriteFile(path, []byte(first("a")), 0o644))
				must.OK(t, os.Chtimes(path, past, past))
			}
		}
		r.restart()
		most := 0
		for range 4 {
			r.shipAll()
			most = max(most, r.tailer.Removed())
			time.Sleep(3 * time.Minute)
		}
		says.Equal(t, most, logs.MaxRemoved, "removed logs are open at most")
		for _, path := range paths {
			_, err := os.Stat(path)
			must.True(t, os.IsNotExist(err), "%s is still there: %v", path, err)
		}
	})
}

// TestTimesToCome: a log whose time is yet to come, as after a node's clock was set back, is quiet once it has not
// grown for a while, and the session's last write is not later than now.
func TestTimesToCome(t *testing.T) {
	for name, restarts := range map[string]bool{"seen growing": false, "from before a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.write("worker.out", first("a"))
				r.age("worker.out", -1000*time.Hour)
				r.shipAll()
				if restarts {
					r.restart()
				}
				time.Sleep(20 * time.Minute)
				r.scan()
				all, _, err := r.tailer.Sessions()
				must.OK(t, err)
				if s := all[0]; s.LastWrite.After(time.Now()) || s.LastWrite.IsZero() || s.Quiet == restarts {
					t.Errorf("last written to at %s, quiet: %t, it is %s", s.LastWrite, s.Quiet, time.Now())
				}
			})
		})
	}
}

// TestNoTimes: a log of 1970, as a machine writes whose clock is not set yet, does not say when a session was last
// written to.
func TestNoTimes(t *testing.T) {
	r := newRig(t)
	r.write("worker.out", first("a"))
	must.OK(t, os.Chtimes(r.path("worker.out"), time.Unix(0, 0), time.Unix(0, 0)))
	r.scan()
	all, _, err := r.tailer.Sessions()
	must.OK(t, err)
	s := all[0]
	says.True(t, s.LastWrite.IsZero() && s.Quiet, "last written to at %s, quiet: %t", s.LastWrite, s.Quiet)
}
