package logs_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestUnreadAtTheEnd: what cannot be read at the end is told and tried again, and is not taken for stored.
func TestUnreadAtTheEnd(t *testing.T) {
	for name, prevent := range map[string]func(t *testing.T, r *rig) (end func()){"log": leased, "folders": noDescriptors} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				deep := strings.Repeat("d/", 30)
				r.mkdir(deep)
				r.write(deep+"a.log", first("a"))
				r.shipAll()
				r.tailer.Drain()
				r.write(deep+"a.log", "the last line\n")
				again := prevent(t, r)
				r.scan()
				must.OK(t, r.shipper.Flush(t.Context()))
				err, stored := r.tailer.Unread(), isStored(t, r)
				again()
				if err == nil || stored || !r.tailer.Rescan() {
					t.Errorf("unread: %v, stored: %v", err, stored)
				}
				r.scan()
				must.OK(t, r.shipper.Flush(t.Context()))
				if err := r.tailer.Unread(); err != nil || !isStored(t, r) || r.tailer.Rescan() {
					t.Errorf("unread: %v, stored: %v", err, isStored(t, r))
				}
				r.want(deep+"a.log", first("a")+"the last line\n")
			})
		})
	}
}

// leased makes opening the log fail, for root too.
func leased(t *testing.T, r *rig) (end func()) {
	f := must.Get(os.OpenFile(r.path(strings.Repeat("d/", 30)+"a.log"), os.O_WRONLY, 0))(t)
	if !logs.CanSeeUse(f) {
		t.Skip("this file system has no leases")
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("this file system has no leases to write: ", err)
	}
	return func() { must.OK(t, f.Close()) }
}

// noDescriptors leaves too few descriptors for a walk through all folders.
func noDescriptors(t *testing.T, _ *rig) (end func()) {
	next := must.Get(os.Open("/dev/null"))(t)
	defer next.Close()
	var limit syscall.Rlimit
	must.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = uint64(next.Fd()) + 16
	must.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	return func() { must.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
}

// TestForbidden: what the collector has no right to read holds up neither the end of the session, nor the removal of
// its other logs, nor the collector's own end. Once it has the right, it reads the rest.
func TestForbidden(t *testing.T) {
	for name, tc := range map[string]struct{ closed, later string }{
		"log":          {closed: "d/secret.out"},
		"growing log":  {closed: "d/secret.out", later: "more\n"},
		"folder":       {closed: "d"},
		"growing logs": {closed: "d", later: "more\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := quietRig(t, "")
				r.restart()
				r.mkdir("d")
				r.write("d/secret.out", first("s"))
				r.age("d/secret.out", time.Hour)
				r.withoutRights()
				must.OK(t, os.Chmod(r.path(tc.closed), 0))
				r.shipAll()
				r.scan()
				if !allStored(t, r) || r.isThere("worker.out") {
					t.Errorf("stored: %v; the other log is there: %v", allStored(t, r), r.isThere("worker.out"))
				}
				r.tailer.Drain()
				r.shipAll()
				if err := r.tailer.Unread(); err != nil || r.tailer.Rescan() || !allStored(t, r) {
					t.Errorf("unread: %v, scanned again: %v, stored: %v", err, r.tailer.Rescan(), allStored(t, r))
				}
				must.OK(t, os.Chmod(r.path(tc.closed), 0o700))
				if tc.later != "" {
					r.write("d/secret.out", tc.later)
				}
				r.shipAll()
				r.want("worker.out", first("a"))
				r.want("d/secret.out", first("s")+tc.later)
				if n := r.tailer.LostBytes(); n != 0 {
					t.Errorf("%v bytes count as lost", n)
				}
			})
		})
	}
}

// TestForbiddenFolder: beside a folder that the collector has no right to read, what is gone is gone: no log waits for
// it, and the session is stored. What is in the folder is not gone.
func TestForbiddenFolder(t *testing.T) {
	for name, tc := range map[string]struct {
		before, closed func(*rig) // what happens before the folder d is closed, and while it is
		lost           float64
		want           map[string]string // beside d/a.log
	}{
		"a rotated log is removed": {
			before: func(r *rig) {
				r.write("x.out", first("x"))
				r.shipAll()
				r.write("x.out", "tail\n")
			},
			closed: func(r *rig) {
				r.rename("x.out", "x.out.1")
				r.write("x.out", first("y"))
				r.scan()
				r.remove("x.out.1")
			},
			lost: 5, want: map[string]string{"x.out": first("x") + first("y")},
		},
		"a log is removed when it is opened": {
			before: func(r *rig) {
				r.write("x.out", first("x"))
				r.scan()
			},
			closed: func(r *rig) {
				r.remove("x.out")
				_ = r.shipper.Flush(r.t.Context())
				if !r.tailer.Rescan() {
					r.t.Error("nobody has found that the log is gone")
				}
				r.write("x.out", first("y"))
			},
			lost: float64(len(first("x"))), want: map[string]string{"x.out": first("y")},
		},
		"an idle log is removed": {
			before: func(r *rig) {
				r.write("empty.err", "")
				r.scan()
			},
			closed: func(r *rig) { r.remove("empty.err") },
		},
		"the collector restarts": {closed: (*rig).restart},
		"a copy waits": {before: func(r *rig) {
			r.write("d/a.log-1", first("a"))
			r.scan()
		}},
		"a log in it was not read to its end": {before: func(r *rig) {
			r.write("d/b.log", first("b"))
			r.scan()
		}, want: map[string]string{"d/b.log": first("b")}},
	} {
		for _, mode := range []fs.FileMode{0, 0o400} { // it cannot be listed, or what is in it cannot be looked at
			t.Run(fmt.Sprintf("%s, mode %#o", name, mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.mkdir("d")
					r.write("d/a.log", first("a"))
					r.withoutRights()
					r.shipAll()
					if tc.before != nil {
						tc.before(r)
					}
					must.OK(t, os.Chmod(r.path("d"), mode))
					if tc.closed != nil {
						tc.closed(r)
					}
					r.shipAll()
					if !allStored(t, r) || r.tailer.Rescan() || r.tailer.LostBytes() != tc.lost || r.tailer.Idle() > 0 {
						t.Errorf("stored: %v, scanned again: %v, lost: %v, idle: %d", allStored(t, r),
							r.tailer.Rescan(), r.tailer.LostBytes(), r.tailer.Idle())
					}
					must.OK(t, os.Chmod(r.path("d"), 0o700))
					r.rename("d/a.log", "d/a.log.1") // it is known, and is not stored under this name
					r.write("d/a.log", "of the next file\n")
					r.shipAll()
					time.Sleep(3 * time.Minute) // a copy waits no longer
					r.shipAll()
					r.want("d/a.log", first("a")+"of the next file\n")
					r.want("d/a.log.1", "")
					for name, text := range tc.want {
						r.want(name, text)
					}
					if !allStored(t, r) || r.tailer.LostBytes() != tc.lost {
						t.Errorf("at the end stored: %v, lost: %v", allStored(t, r), r.tailer.LostBytes())
					}
				})
			})
		}
	}
}

// TestForbiddenNoMore: a log that the collector has the right to read now is not taken for stored before it is.
func TestForbiddenNoMore(t *testing.T) {
	for name, later := range map[string]string{"as it was": "", "grown": "more\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.write("secret.out", first("s"))
				r.withoutRights()
				must.OK(t, os.Chmod(r.path("secret.out"), 0))
				r.shipAll()
				if !allStored(t, r) {
					t.Error("a log that may not be read holds up the end")
				}
				must.OK(t, os.Chmod(r.path("secret.out"), 0o600))
				r.write("secret.out", later)
				r.scan()
				if allStored(t, r) {
					t.Error("a log that may be read now is taken for stored")
				}
				must.OK(t, r.shipper.Flush(t.Context()))
				r.want("secret.out", first("s")+later)
				if !allStored(t, r) {
					t.Error("the log is not taken for stored")
				}
			})
		})
	}
}

// TestForbiddenDump: a dump that is stored is not stored again when its folder can be read again, whatever it has then.
func TestForbiddenDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const dump = "debug_state.txt"
		r.write(dump, first("a"))
		r.age(dump, time.Hour)
		r.withoutRights()
		r.shipAll()
		must.OK(t, os.Chmod(r.path("."), 0))
		r.shipAll()
		must.OK(t, os.Chmod(r.path("."), 0o700))
		must.OK(t, os.WriteFile(r.path(dump), []byte(first("b")), 0o600))
		r.age(dump, time.Hour)
		r.shipAll()
		if r.want(dump, first("a")); !allStored(t, r) || r.tailer.LostBytes() != 0 {
			t.Errorf("stored: %v, lost: %v", allStored(t, r), r.tailer.LostBytes())
		}
	})
}

// TestForbiddenMovedLogs: logs that were moved, and whose folder cannot be listed for a while, are not lost.
func TestForbiddenMovedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.write("raylet.out", first("a"))
		r.withoutRights()
		r.shipAll()
		r.write("raylet.out", "the last words\n")
		moved := filepath.Join(r.tmp, "prev-logs", session, nodeID.String())
		must.OK(t, os.MkdirAll(moved, 0o755))
		must.OK(t, os.Rename(r.path("."), filepath.Join(moved, "logs")))
		r.mkdir(".")
		r.write("raylet.out", first("b"))
		r.node = func(context.Context, string) (rayid.Node, error) { return rayid.Node{0x22}, nil }
		r.scan()
		must.OK(t, os.Chmod(filepath.Dir(moved), 0))
		r.shipAll()
		if !allStored(t, r) || r.tailer.LostBytes() != 0 {
			t.Errorf("stored: %v, lost: %v", allStored(t, r), r.tailer.LostBytes())
		}
		must.OK(t, os.Chmod(filepath.Dir(moved), 0o700))
		r.shipAll()
		r.want("raylet.out", first("a")+"the last words\n")
		r.wantOf(rayid.Node{0x22}, "raylet.out", first("b"))
	})
}

// allStored says whether nothing of the rig's session is still to be stored; there may be other sessions.
func allStored(t *testing.T, r *rig) bool {
	sessions, _, err := r.tailer.Sessions()
	must.OK(t, err)
	return slices.ContainsFunc(sessions, func(s logs.Session) bool { return s.Name == session && s.Stored })
}

// withoutRights makes the rest of the test run as a user to whom modes apply, and who owns the rig's folders.
func (r *rig) withoutRights() {
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	must.OK(r.t, filepath.WalkDir(filepath.Dir(r.tmp), func(p string, _ fs.DirEntry, err error) error {
		must.OK(r.t, err)
		return os.Lchown(p, nobody, nobody)
	}))
	must.OK(r.t, syscall.Seteuid(nobody))
	r.t.Cleanup(func() { must.OK(r.t, syscall.Seteuid(0)) })
	if _, err := os.Stat(r.tmp); err != nil {
		r.t.Skip("other users may not enter the folder of temporary files: ", err)
	}
}
