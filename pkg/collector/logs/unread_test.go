package logs_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

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
