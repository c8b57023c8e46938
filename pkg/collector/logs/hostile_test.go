package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestFoldersThatAreNone: whoever may write to Ray's temporary folder can put a FIFO where a folder is looked for,
// which may hold up nothing.
func TestFoldersThatAreNone(t *testing.T) {
	const other = "session_2026-11-19_00-00-00_000000_1"
	for name, put := range map[string]func(tmp string) error{
		"logs":      func(tmp string) error { return fifo(tmp, other, "logs") },
		"moved":     func(tmp string) error { return fifo(tmp, "prev-logs", session) },
		"all moved": func(tmp string) error { return fifo(tmp, "prev-logs") },
		"a node's":  func(tmp string) error { return fifo(tmp, "prev-logs", session, nodeID.String(), "logs") },
		"session":   func(tmp string) error { return fifo(tmp, other) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("raylet.out", "hello\n")
			must.OK(t, put(r.tmp))
			scanned := make(chan error, 1)
			go func() {
				_, err := r.tailer.Scan(context.Background())
				scanned <- err
			}()
			select {
			case err := <-scanned:
				says.OK(t, err)
			case <-time.After(5 * time.Minute):
				t.Fatal("the scan waits for ever")
			}
			says.OK(t, r.shipper.Flush(t.Context()))
			stored, err := r.store.Joined(key(session, nodeID, "raylet.out"), func(k string) (string, int64) {
				whole, offset, _, _ := layout.ParseChunk(k)
				return whole, offset
			})
			says.True(t, err == nil && bytes.Equal(stored, []byte("hello\n")), "stored %q, %v", stored, err)
		})
	}
}

// TestDeepFolders: a log is looked for some folders deep, not so deep that all descriptors are open on the way, which
// would stop all else.
func TestDeepFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const deep, tooDeep = 31, 1000
		r.mkdir(strings.Repeat("d/", tooDeep))
		shallow := strings.Repeat("d/", deep) + "a.log"
		r.write(shallow, "stored\n")
		r.write(strings.Repeat("d/", deep+1)+"b.log", "not read\n")
		r.write("raylet.out", "hello\n")
		r.shipAll()
		r.want("raylet.out", "hello\n")
		r.want(shallow, "stored\n")
		r.want(strings.Repeat("d/", deep+1)+"b.log", "")
	})
}

func fifo(path ...string) error {
	at := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return syscall.Mkfifo(at, 0o644)
}

// TestManyLost: of many logs that are removed before they are stored, some are named, and all are counted.
func TestManyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		log, said := logtest.NewNullLogger()
		r.log = log
		r.restart()
		const many, named = 300, 100
		for i := range many {
			r.write(fmt.Sprintf("worker-%d.out", i), "line\n")
		}
		r.shipAll()
		for i := range many {
			r.write(fmt.Sprintf("worker-%d.out", i), "another\n")
		}
		r.scan()
		for i := range many {
			r.remove(fmt.Sprintf("worker-%d.out", i))
		}
		r.scan()
		r.scan()
		if n := len(said.AllEntries()); n != named || !strings.Contains(said.LastEntry().Message, "its last 8 bytes") {
			t.Errorf("%d lines about %d logs, want %d, the last %v", n, many, named, said.LastEntry())
		}
		time.Sleep(logthrottle.Gap)
		r.write("last.out", "line\n")
		r.scan()
		r.shipAll()
		r.write("last.out", "another\n")
		r.scan()
		r.remove("last.out")
		r.scan()
		r.scan()
		last := said.LastEntry()
		says.True(t, last.Data["skipped since the last line"] == many-named && last.Data["log"] == "last.out",
			"the line after them is %v", last.Data)
	})
}

// TestLinks: each session's logs are stored once, under their own session, whatever links lead to them.
func TestLinks(t *testing.T) {
	const other = "session_2026-11-19_00-00-00_000000_1"
	for name, link := range map[string]struct{ at, to string }{
		"logs of another session":  {other + "/logs", "../" + session + "/logs"},
		"logs by an absolute path": {other + "/logs", "/" + session + "/logs"},
		"a folder in it":           {other + "/logs/old", "../../" + session + "/logs"},
		"a folder of its own":      {session + "/logs/again", "."},
		"old logs":                 {session + "/logs/old", "serve"},
		"a session":                {other, session},
		"moved logs": {"prev-logs/" + session + "/" + strings.Repeat("ab", 28) + "/logs",
			"../../../" + session + "/logs"},
		"a node's moved logs":          {"prev-logs/" + session + "/" + strings.Repeat("ab", 28), "../../" + session},
		"the moved logs of a session":  {"prev-logs/" + session, "../" + session},
		"all moved logs":               {"prev-logs", "."},
		"a log":                        {session + "/logs/again.out", "raylet.out"},
		"a link to itself":             {session + "/logs/loop", "loop"},
		"a folder outside":             {session + "/logs/away", "/etc"},
		"a session's parent as a node": {"prev-logs/" + session + "/" + strings.Repeat("cd", 28) + "/logs", "../../.."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mkdir("serve")
				r.write("raylet.out", "hello\n")
				r.write("serve/proxy.log", "served\n")
				at := filepath.Join(r.tmp, link.at)
				must.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
				if filepath.IsAbs(link.to) && link.to != "/etc" {
					link.to = r.tmp + link.to
				}
				must.OK(t, os.Symlink(link.to, at))
				r.shipAll()
				want := []string{key(session, nodeID, "raylet.out"), key(session, nodeID, "serve/proxy.log")}
				says.EqualSlices(t, r.store.Keys(), want, "stored")
			})
		})
	}
}
