package logs_test

import (
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
