package logs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
				err, stored := r.tailer.Unread(), allStored(t, r)
				again()
				says.True(t, err != nil && !stored && r.tailer.NeedsScan(), "unread: %v, stored: %v", err, stored)
				r.scan()
				must.OK(t, r.shipper.Flush(t.Context()))
				if err := r.tailer.Unread(); err != nil || !allStored(t, r) || r.tailer.NeedsScan() {
					t.Errorf("unread: %v, stored: %v", err, allStored(t, r))
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
	stories := map[string]story{}
	for closed, what := range map[string]string{"d/secret.out": "a log", "d": "a folder"} {
		for name, later := range map[string]string{"": "", " and more later": "more"} {
			stories[what+name] = story{`mkdir d; write d/secret.out a; age d/secret.out 1h; unprivileged
				chmod 0 ` + closed + `; ship; scan; done; gone worker.out; drain; ship; done; enough
				chmod 700 ` + closed + `; write d/secret.out ` + later + `; ship; lost; has worker.out first`,
				`d/secret.out: a ` + later}
		}
	}
	tell(t, stories, (*rig).quiet)
}

// TestForbiddenIsTold: at the end it is told what the collector had no right to read, and what to do.
func TestForbiddenIsTold(t *testing.T) {
	for _, closed := range []string{"d/secret.out", "d"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.play(`mkdir d; write d/secret.out a; write x a; unprivileged; chmod 0 ` + closed + `; ship; drain; ship`)
			err := fmt.Sprint(r.tailer.Forbidden())
			says.True(t, strings.Contains(err, "/logs/d") && strings.Contains(err, "runAsUser"), "%s: %s", closed, err)
			if r.play(`chmod 700 ` + closed + `; ship`); r.tailer.Forbidden() != nil {
				t.Errorf("%s, once it is readable: %v", closed, r.tailer.Forbidden())
			}
		})
	}
}

// TestLeftIsTold: at the end it is told which logs are never read: those behind a link, which is not followed, and those
// too far down or with too long a path; not empty ones.
func TestLeftIsTold(t *testing.T) {
	long := strings.Repeat(strings.Repeat("d", 200)+"/", 5)
	for what, told := range map[string]string{
		"linked": "symbolic link", strings.Repeat("d/", 33) + "a.log": "32 folders deep",
		long + "a.log": "at most 900 bytes", strings.Repeat("d/", 32): "<nil>", long + "empty.log": "<nil>",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.play(`write x a; ship`)
			says.OK(t, r.tailer.Forbidden())
			if what == "linked" {
				disk := filepath.Join(t.TempDir(), "disk")
				must.OK(t, os.Rename(r.path("."), disk))
				must.OK(t, os.Symlink(disk, r.path(".")))
			} else {
				r.mkdir(filepath.Dir(what))
				if content := map[string]string{"a.log": "a\n"}[filepath.Base(what)]; filepath.Ext(what) != "" {
					r.write(what, content)
				}
			}
			r.scan()
			if err := fmt.Sprint(r.tailer.Forbidden()); !strings.Contains(err, told) {
				t.Errorf("%.20s: %s", what, err)
			}
		})
	}
}

// TestForbiddenFolder: beside a folder that the collector has no right to read, what is gone is gone: no log waits for
// it, and the session is stored. What is in the folder is not gone.
func TestForbiddenFolder(t *testing.T) {
	stories := map[string]story{}
	for name, tc := range map[string]struct {
		before, closed string // what happens before the folder d is closed, and while it is
		lost           string
		want           string // beside d/a.log
	}{
		"a rotated log is removed": {`write x a; ship; write x tail`,
			`rename x x.1; write x b; scan; remove x.1`, "tail", `x: a b`},
		"a log is removed when it is opened": {`write x a; scan`,
			`remove x; sleep 1s; try; again; write x b`, "a", `x: b`},
		"an idle log is removed":              {before: `write empty.err; scan`, closed: `remove empty.err`, want: "x:"},
		"the collector restarts":              {closed: `restart`, want: "x:"},
		"a copy waits":                        {before: `write d/a.log-1 a; scan`, want: "x:"},
		"a log in it was not read to its end": {before: `write d/b.log b; scan`, want: `d/b.log: b`},
	} {
		for _, mode := range []string{"0", "400"} { // it cannot be listed, or what is in it cannot be looked at
			// a.log is known, and is not stored under the name that it gets. A copy waits no longer than 3 minutes.
			stories[name+", mode "+mode] = story{`mkdir d; write d/a.log a; unprivileged; ship; ` + tc.before + `
				chmod ` + mode + ` d; ` + tc.closed + `; ship; done; enough; active; lost ` + tc.lost + `
				chmod 700 d; rename d/a.log d/a.log.1; write d/a.log next; ship; sleep 3m; ship
				done; lost ` + tc.lost, `d/a.log: a next; d/a.log.1:; ` + tc.want}
		}
	}
	tell(t, stories)
}

// TestForbiddenForAWhile: what was stored stays as it is, and what the collector has the right to read now is not taken
// for stored before it is.
func TestForbiddenForAWhile(t *testing.T) {
	const moved = ` ../../prev-logs/` + session
	tell(t, map[string]story{
		"a log": {`write x a; unprivileged; chmod 0 x; ship; done
			chmod 600 x; scan; undone; flush; has x a; done`, `x: a`},
		"a log that grows": {`write x a; unprivileged; chmod 0 x; ship; done
			chmod 600 x; write x more; scan; undone; flush; has x a more; done`, `x: a more`},
		"a dump": {`overwrite debug_state.txt a; age debug_state.txt 1h; unprivileged; ship; chmod 0 .; ship; chmod 700 .
			overwrite debug_state.txt b; age debug_state.txt 1h; ship; done; lost`, `debug_state.txt: a`},
		"logs that were moved": {`write x a; unprivileged; ship; write x tail; move; write x b; second; scan
			chmod 0` + moved + `; ship; done; lost; chmod 700` + moved, `x: a tail; second/x: b`},
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

// TestFileThatCannotBeToldOf: a damaged file, or folder, holds up no other, and has the same log when it can be read
// again.
func TestFileThatCannotBeToldOf(t *testing.T) {
	for damaged, log := range map[string]string{"a.log": "a.log", "folder": "folder/a.log"} {
		t.Run(damaged, func(t *testing.T) { testFileThatCannotBeToldOf(t, damaged, log) })
	}
}

func testFileThatCannotBeToldOf(t *testing.T, damaged, log string) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mkdir("folder")
		for _, name := range []string{log, "b.log", "c.log"} {
			r.write(name, first(name))
		}
		r.shipAll()
		mend := logs.HarmFile(t, damaged, syscall.EUCLEAN)
		r.remove("b.log")
		r.write("c.log", "more\n")
		r.shipAll()
		says.True(t, allStored(t, r), "the session waits for the damaged log")
		says.Equal(t, r.tailer.Followed(), 2, "followed logs: those that may still be there")
		says.Error(t, r.tailer.Unread(), "the size of 1 of them", "the log is not told")
		mend()
		r.write(log, "late\n")
		r.shipAll()
		r.want(log, first(log)+"late\n")
		r.want("c.log", first("c.log")+"more\n")
		says.OK(t, r.tailer.Unread())
	})
}
