package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestSessions: those left behind and new ones are followed, and those that are over are removed if that is asked for.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		past := time.Now().Add(-time.Hour)
		sessions := []string{"session_2026-01-01_00-00-00_000000_1", session, "session_2026-12-31_00-00-00_000000_1"}
		for _, s := range sessions {
			path := filepath.Join(r.tmp, s, "logs", "serve", "x.log")
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.OK(t, os.WriteFile(path, []byte(s), 0o644))
			must.OK(t, os.Chtimes(path, past, past))
		}
		must.OK(t, os.Symlink("/somewhere/else/"+sessions[2], filepath.Join(r.tmp, "session_latest")))
		must.OK(t, os.WriteFile(filepath.Join(r.tmp, "session_file"), nil, 0o644))
		for _, copied := range []string{".bak", " (copy)", "_old"} { // whatever it holds
			must.OK(t, os.CopyFS(filepath.Join(r.tmp, sessions[2]+copied), os.DirFS(filepath.Join(r.tmp, sessions[2]))))
		}
		must.OK(t, os.WriteFile(filepath.Join(r.tmp, sessions[2]+".tar"), nil, 0o644))
		r.node = func(_ context.Context, s string) (rayid.Node, error) {
			if s == sessions[0] {
				return rayid.Node{}, fmt.Errorf("not known")
			}
			return nodeID, nil
		}
		log, hook := logtest.NewNullLogger()
		r.log = log
		r.restart()
		r.shipAll()
		r.scan()
		said := 0
		for _, line := range hook.AllEntries() {
			if strings.Contains(line.Message, "names that Ray gives no session") {
				said++
			}
		}
		says.Equal(t, said, 1, "lines about copies")
		told, running, err := r.tailer.Sessions()
		if err != nil || running != sessions[2] || len(told) != 3 || told[0].Stored || !told[1].Stored ||
			!told[1].LastWrite.Equal(past) {
			t.Errorf("sessions %+v, running %s, %v", told, running, err)
		}
		for i, s := range sessions {
			says.Equal(t, r.store.Object(key(s, nodeID, "serve/x.log")) != nil, (i > 0), "%s is stored", s)
		}
		r.tailer = logs.New(logs.Options{Dir: r.tmp, StateDir: r.state, Key: key, ListEmpty: r.listEmpty, Node: r.node,
			Log: r.log, Registerer: prometheus.NewRegistry(), DeleteShipped: true,
			Running: func(string) (bool, error) { return false, nil }})
		r.scan()
		for _, s := range r.tailer.Sources() { // what is stored the listing tells
			says.OK(t, s.Resume(int64(len(r.store.Object(s.Key())))))
		}
		r.scan()
		for i, s := range sessions {
			_, err := os.Stat(filepath.Join(r.tmp, s, "logs", "serve", "x.log"))
			says.Equal(t, err == nil, i != 1, "the log of %s is left", s)
		}
		must.OK(t, os.RemoveAll(filepath.Join(r.tmp, session)))
		r.scan()
		_, err = os.Stat(filepath.Join(r.state, session+".json"))
		says.True(t, os.IsNotExist(err), "the state of a session that is gone: %v", err)
	})
}

func TestNoFolder(t *testing.T) {
	r := newRig(t)
	r.tmp = filepath.Join(r.tmp, "not yet")
	r.restart()
	dirs, err := r.tailer.Scan(t.Context())
	says.True(t, err == nil && len(dirs) == 0, "%v, %v", dirs, err)
	if s, running, err := r.tailer.Sessions(); err != nil || running != "" || s != nil {
		t.Errorf("%v, %s, %v", s, running, err)
	}
}

// TestTwoCollectors: a second collector by mistake, with its own state, stores the same logs to the same keys.
func TestTwoCollectors(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			one := newRig(t)
			one.chunk = 1 + random.Int64N(300)
			one.restart()
			two := newRig(t)
			two.tmp, two.store, two.chunk = one.tmp, one.store, 1+random.Int64N(300)
			two.restart()
			var written bytes.Buffer
			for i := range 60 {
				r := []*rig{one, two}[random.IntN(2)]
				switch random.IntN(4) {
				case 0:
					text := fmt.Sprintf("line %d %0*d\n", i, 40+random.IntN(100), i)
					r.write("x.out", text)
					written.WriteString(text)
				case 1:
					if written.Len() > 0 && i%20 == 0 {
						// Both have seen what is there: which generation is which they cannot ask each other.
						one.shipAll()
						two.shipAll()
						one.rename("x.out", fmt.Sprintf("x.out.%d", 99-i))
						one.scan()
						two.scan()
						one.write("x.out", "")
					}
				default:
					r.scan()
					time.Sleep(time.Second)
					_, _, _ = r.shipper.ShipOnce(t.Context())
				}
			}
			one.shipAll()
			two.shipAll()
			one.want("x.out", written.String())
		})
	}
}

// TestEmptyLogs: empty logs are stored as a list of their names. One that gets bytes later is a log like others.
func TestEmptyLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mkdir("old")
		r.write("worker.err", "")
		r.write("worker.out", "")
		r.shipAll()
		r.restart()
		r.shipAll()
		r.write("worker.out", "a line\n")
		r.shipAll()
		r.restart()
		r.write("worker.out", "another\n")
		r.write("late.err", "")
		r.shipAll()
		r.rename("worker.err", "old/worker.err") // it is no new log
		r.shipAll()
		r.want("worker.out", "a line\nanother\n")
		r.wantEmpty("late.err", "worker.err", "worker.out")
		got := r.store.Object(key(session, nodeID, "worker.err"))
		says.True(t, got == nil, "an empty log is stored as %q", got)
		puts, _ := r.store.Requests()
		says.True(t, puts == 2 && r.listings == 2, "%d puts, %d listings", puts, r.listings)
		r.write("old/worker.err", "last words\n")
		r.shipAll()
		r.want("worker.err", "last words\n")
	})
}

// TestUnlistedEmptyLogs: names of empty logs that nobody takes wait, also those for which there is no room, and are
// offered once in a scan.
func TestUnlistedEmptyLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		names := make([]string, 5000) // more than 1 MiB
		for i := range names {
			names[i] = fmt.Sprintf("worker-%0240d.err", i)
			r.write(names[i], "")
		}
		offers, full := 0, true
		r.unlisted = func() bool {
			offers++
			return full
		}
		for range 3 {
			r.scan()
		}
		says.True(t, offers <= 6 && r.tailer.Waiters() != 0 && !allStored(t, r),
			"%d offers in 3 scans, %d wait, stored: %v", offers, r.tailer.Waiters(), allStored(t, r))
		full = false
		r.settle()
		r.wantEmpty(names...)
		says.True(t, r.tailer.Waiters() == 0 && allStored(t, r), "%d wait, stored: %v", r.tailer.Waiters(),
			allStored(t, r))
	})
}

// TestRemovedBeforeItIsOpened: a file that is removed between the shipper's question and its reading does not block the
// log's next file.
func TestRemovedBeforeItIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b := first("a"), first("b")
		r.write("x.out", a)
		r.shipAll()
		r.write("x.out", "tail\n")
		r.scan()
		source := r.tailer.Sources()[0]
		r.remove("x.out")
		r.scan()
		r.scan()
		must.True(t, says.Err(source.Open(int64(len(a)), 5)) != nil, "a removed log was opened")
		r.write("x.out", b)
		r.shipAll()
		r.want("x.out", a+b)
	})
}

// TestAgeWithoutClock: that the clock is set back later does not put off what was written before a scan.
func TestAgeWithoutClock(t *testing.T) {
	r := newRig(t)
	r.write("x.out", first("a"))
	r.scan()
	_, _, oldest := r.tailer.Sources()[0].Pending(1 << 20)
	age := time.Since(oldest)
	says.True(t, age > 0 && strings.Contains(oldest.String(), " m="), "it waits since %v", oldest)
}
