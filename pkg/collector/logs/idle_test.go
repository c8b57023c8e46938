package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

// TestTurns: with more logs than are followed at a time, each byte is stored once, whatever store and collector do
// meanwhile, and the empty ones are listed.
func TestTurns(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			logs.SetMaxFollowed(t, 1+random.IntN(6))
			r := newRig(t)
			r.mkdir("serve")
			r.chunk = 1 + random.Int64N(300)
			r.restart()
			written := map[string]*bytes.Buffer{}
			created := map[string]bool{} // as empty logs
			r.store.Fault = func(string) storetest.Fault {
				if random.IntN(4) > 0 {
					return storetest.None
				}
				return []storetest.Fault{storetest.Refuse, storetest.LostReply, storetest.Broken, storetest.Throttled,
					storetest.LostThrottled}[random.IntN(5)]
			}
			r.unlisted = func() bool { return random.IntN(4) == 0 }
			for step := range 120 {
				p := fmt.Sprintf("worker-%d.out", random.IntN(25))
				if random.IntN(5) == 0 {
					p = "serve/" + p
				}
				if written[p] == nil {
					written[p] = &bytes.Buffer{}
				}
				switch random.IntN(10) {
				case 0, 1:
					r.write(p, "") // it may have bytes
					r.scan()
					if written[p].Len() == 0 {
						created[p] = true
					}
				case 2:
					r.look(random, slices.Collect(maps.Keys(written)))
					_, _, _ = r.shipper.ShipOnce(t.Context())
				case 3:
					r.restart()
				case 4:
					time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				default:
					text := fmt.Sprintf("line %d of %s: %0*d\n", step, p, random.IntN(80), step)
					r.write(p, text)
					written[p].WriteString(text)
				}
			}
			r.store.Fault, r.unlisted = nil, func() bool { return false }
			r.settle()
			for p, want := range written {
				r.want(p, want.String())
			}
			listed := strings.Fields(string(r.empty[nodeID]))
			for p, text := range written {
				// One that got bytes before it could be listed is a log like others.
				if is := slices.Contains(listed, p); is && !created[p] || !is && created[p] && text.Len() == 0 {
					t.Errorf("%s, with %d bytes, is listed as empty: %v", p, text.Len(), is)
				}
			}
			puts, _ := r.store.Requests()
			listings := r.listings
			r.restart()
			r.settle()
			if again, _ := r.store.Requests(); again != puts || r.listings != listings {
				t.Errorf("%d puts and %d listings after a restart", again-puts, r.listings-listings)
			}
			must.True(t, !t.Failed(), "seed %d", seed)
		})
	}
}

// settle scans and ships until no log waits.
func (r *rig) settle() {
	r.t.Helper()
	for range 200 {
		r.scan()
		ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute)
		must.OK(r.t, r.shipper.Flush(ctx))
		cancel()
		time.Sleep(4 * time.Second)
		if r.tailer.Waiters() == 0 && len(r.tailer.Sources()) == 0 {
			return
		}
	}
	r.t.Fatalf("%d logs still wait", r.tailer.Waiters())
}

// TestIdleLogIsMoved: an idle log stays in its stream when it is rotated, moved or truncated, also while no
// collector runs.
func TestIdleLogIsMoved(t *testing.T) {
	stories := map[string]story{}
	for name, tc := range map[string]struct {
		move string
		grow string // the file that grows later
		want string // of what is stored as x behind its first lines
	}{
		"rotated":                 {`rename x x.1; write x b`, "x", "b more; x.1:"},
		"rotated, late line":      {`rename x x.1; write x.1 late; write x b`, "x", "late b more; x.1:"},
		"rotated to empty":        {`rename x x.1; write x`, "x", "more; x.1:"},
		"moved":                   {`mkdir old; rename x old/x`, "old/x", "more; old/x:"},
		"truncated":               {`truncate x; write x half`, "x", "half more"},
		"replaced":                {`remove x; write x b c`, "x", "b c more"},
		"removed, and made again": {`remove x; settle; settle; write x b c`, "x", "b c more"},
		"moved away, and another made": { // so that its inode is not used again
			`rename x ../../kept; settle; settle; write x b c`, "x", "b c more"},
		"removed, and made again twice": {`remove x; settle; settle; write x b c; settle; settle
			rename x ../../kept; settle; settle; write x c b a`, "x", "b c c b a more"},
	} {
		for when, restart := range map[string]string{"": "", ", restarted": "restart; ",
			", mounted again": "remount; "} {
			stories[name+when] = story{`write x a; write 1 a; write 2 b; write 3 c; write 4 a; write 5 b; write 6 c
				settle; ` + restart + tc.move + `; settle; write ` + tc.grow + ` more; settle`, `x: a ` + tc.want}
		}
	}
	tell(t, stories, func(r *rig) { logs.SetMaxFollowed(r.t, 2) })
	t.Run("followed until then", func(t *testing.T) { tell(t, stories) })
}

// TestRemovedLogIsMadeAgain: what gets the path of a removed log is stored as a whole, after what that one had, also if
// it has its inode and begins with the same bytes, and if it is found where KubeRay's manifests move all logs.
func TestRemovedLogIsMadeAgain(t *testing.T) {
	moved := "../../prev-logs/" + session + "/" + nodeID.String() + "/logs/x"
	const away = "rename x ../../kept; settle; settle; overwrite ../../kept " // as if its inode was used again
	stories := map[string]story{}
	for when, restart := range map[string]string{"": "", ", restarted": "restart; "} {
		stories["with its inode"+when] = story{`write x a; settle; ` + away + `a b; ` + restart +
			`rename ../../kept x; settle`, `x: a a b`}
		const followed = `rename y ../../kept; overwrite ../../kept b; rename ../../kept x; settle` // has its inode
		stories["with the inode of a followed log"+when] = story{`write x a; write y c; settle; remove x; settle
			settle; ` + restart + followed, `x: a b; y: c`}
		stories["rotated, with the inode of a followed log"+when] = story{`write x a; write y c; settle; ` + restart +
			`rename x x.1; ` + followed, `x: a b; y: c; x.1:`}
		stories["moved unseen"+when] = story{`write x a; settle; remove x; settle; settle; ` + restart +
			`write x b c; move; settle`, `x: a b c`}
		stories["empty, moved unseen"+when] = story{`write x a; settle; remove x; settle; settle; ` + restart +
			`write x; move; settle; write ` + moved + ` b c; settle`, `x: a b c`}
		stories["removed where it was moved"+when] = story{`write x a; settle; move; settle; remove ` + moved +
			`; settle; settle; ` + restart + `write x b c; settle`, `x: a b c`}
	}
	tell(t, stories)
	t.Run("idle before", func(t *testing.T) {
		for name, s := range stories {
			s.script = strings.Replace(s.script, "write x a", "write x a; write 1 a; write 2 b; write 3 c; write 4 a", 1)
			stories[name] = s
		}
		tell(t, stories, func(r *rig) { logs.SetMaxFollowed(r.t, 2) })
	})
}

// TestRotatedLogTakesNoPlace: a log that was rotated and is stored takes no place from others, also after a restart if
// its newest file is gone: then nothing has the store listed for it.
func TestRotatedLogTakesNoPlace(t *testing.T) {
	tell(t, map[string]story{"newest gone": {`write x a; settle; rename x x.1; write x b; settle; remove x; settle; settle
		write y c; restart; settle`, `x: a b; y: c`}}, func(r *rig) { logs.SetMaxFollowed(r.t, 1) })
}

// TestFollowedAgainThenMoved: a log that was followed again, and was moved with its folder before a restart, is stored
// once, also if another node has begun a log of its name when it gets more.
func TestFollowedAgainThenMoved(t *testing.T) {
	moved := "../../prev-logs/" + session + "/" + nodeID.String() + "/logs/y"
	tell(t, map[string]story{"": {`write x a; write y c; settle; write y tail; settle; move; second; restart; settle
		settle; write y b; settle; write ` + moved + ` late; settle`, `y: c tail late; second/y: b; x: a`}},
		func(r *rig) { logs.SetMaxFollowed(r.t, 1) })
}

// TestLogOfTwoNames: what a log that has two names gets is stored once for each of them at most, also if it is idle under
// one of them for long.
func TestLogOfTwoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs.SetMaxFollowed(t, 2)
		r := newRig(t)
		r.play("write x a; write 1 a; write 2 b; write 3 c; write 4 a; settle")
		must.OK(t, os.Link(r.path("x"), r.path("y")))
		const others = "write 1 more; write 2 more; write 3 more; write 4 more; settle; settle; settle; "
		r.play(others + "write x b; settle; settle; settle; settle; " + others + "write y c; ship; " + others + "ship")
		for _, name := range []string{"x", "y"} {
			got := r.joined(nodeID, name)
			says.True(t, strings.HasPrefix(text("a", "b", "c"), got), "%s has %q", name, got)
		}
	})
}

// TestOldestRemovedLogsAreForgotten: of many removed logs of all sessions, those that were removed last stay known.
func TestOldestRemovedLogsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs.SetMaxGone(t, 2)
		r := newRig(t)
		const other = "../../session_2026-11-21_00-00-00_000000_1/logs/"
		r.mkdir(other)
		for _, name := range []string{other + "1", "2", other + "3", "x", "y"} {
			r.play("write " + name + " a; settle; remove " + name + "; settle; settle; settle; settle; settle")
		}
		says.Equal(t, r.tailer.Idle(), 2, "removed logs are known")
		r.play("write x b c; write y c b; settle; has x a b c; has y a c b")
	})
}

// TestRemovedLogIsInAFile: a log that was removed, or that is made again, is known after a collector was killed before
// it had saved all that it knows.
func TestRemovedLogIsInAFile(t *testing.T) {
	const gone = "remove x; settle; settle; settle; settle; settle; "
	for name, tc := range map[string]struct{ file, before, blocked, then string }{
		"becomes idle":   {".json.resting", "write x a; settle", gone, "write x b c"},
		"followed again": {".json", "write x a; settle; " + gone, "write x b c; scan", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.play(tc.before)
				file := filepath.Join(r.state, session+tc.file)
				_ = os.Rename(file, file+".before")
				must.OK(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o755))
				r.play(tc.blocked)
				must.OK(t, os.RemoveAll(file))
				_ = os.Rename(file+".before", file)
				r.play("restart; " + tc.then + "; ship; has x a b c")
			})
		})
	}
}

// TestRotationWaitsForIdleLogs: what is saved when a log was rotated does not leave out a log that became idle, though
// these could not be saved before.
func TestRotationWaitsForIdleLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.play("write x a; write y a; settle")
		file := filepath.Join(r.state, session+".json.resting")
		must.OK(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o755))
		r.play("remove x; settle; settle; settle; settle; settle; write y tail; rename y y.1; write y b; ship")
		must.OK(t, os.RemoveAll(file))
		r.play("restart; write x b c; ship; has x a b c; has y a tail b")
	})
}

// TestShortListingOfARemovedLog: a listing that shows nothing of a removed log for a moment costs no byte of the log
// that is made again in its place.
func TestShortListingOfARemovedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.play("write x a; settle; remove x; settle; settle; settle; settle; settle; write x b c")
		stored := r.store.Objects
		r.store.ListFault = func(string) error {
			r.store.Objects, r.store.ListFault = map[string][]byte{}, func(string) error {
				r.store.Objects = stored
				return nil
			}
			return nil
		}
		r.store.Fault = func(string) storetest.Fault {
			r.store.Objects = stored
			return storetest.None
		}
		r.play("settle; has x a b c")
	})
}

// TestIdleLogHasAnotherName: an idle log that was renamed to something that no rotation makes is another log from then
// on, whatever gets its old name, and when.
func TestIdleLogHasAnotherName(t *testing.T) {
	stories := map[string]story{}
	for name, scans := range map[string]string{"a scan later": "scan", "three scans later": "scan; scan; scan"} {
		stories[name] = story{`write x a; write 1 a; write 2 b; write 3 c; write 4 a; write 5 b; write 6 c; settle
			rename x y; ` + scans + `; write x b; settle; write y more; write x more; settle`, `x: a b more; y: a more`}
	}
	tell(t, stories, func(r *rig) { logs.SetMaxFollowed(r.t, 2) })
}

// TestRemovedLogsDoNotAddUp: of logs that come and go, as where a program removes old ones, little stays in memory and
// in the state file. What is known is enough to tell another file of such a name, also after it was rotated and after a
// restart.
func TestRemovedLogsDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const rounds, each = 5, 40
		for round := range rounds {
			for i := range each {
				r.write(fmt.Sprintf("worker-%d-%d.out", round, i), first("a"))
			}
			rotated := fmt.Sprintf("worker-%d-0.out", round)
			r.settle()
			r.rename(rotated, rotated+".1")
			r.write(rotated, first("b"))
			r.settle()
			r.remove(rotated + ".1")
			for i := range each {
				r.remove(fmt.Sprintf("worker-%d-%d.out", round, i))
			}
			for range 4 {
				r.scan()
			}
		}
		state := must.Get(os.ReadFile(filepath.Join(r.state, session+".json")))(t)
		says.True(t, r.tailer.Streams() == 0 && len(state) < 100, "%d of %d removed logs are remembered, in %d bytes",
			r.tailer.Streams(), rounds*each, len(state))
		r.restart()
		for round := range rounds {
			r.write(fmt.Sprintf("worker-%d-0.out", round), first("c")+first("a")+first("b"))
			r.write(fmt.Sprintf("worker-%d-1.out", round), first("c")+first("a")+first("b"))
		}
		r.settle()
		r.shipAll()
		for round := range rounds {
			r.want(fmt.Sprintf("worker-%d-0.out", round), first("a")+first("b")+first("c")+first("a")+first("b"))
			r.want(fmt.Sprintf("worker-%d-1.out", round), first("a")+first("c")+first("a")+first("b"))
		}
	})
}

// TestNewLogDoesNotWait: what is written now is stored before a thousand old logs are.
func TestNewLogDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs.SetMaxFollowed(t, 20)
		r := newRig(t)
		for i := range 1000 {
			name := fmt.Sprintf("worker-%d.out", i)
			r.write(name, first("old"))
			r.age(name, time.Duration(1+i)*time.Hour)
		}
		r.scan()
		says.Equal(t, r.tailer.Waiters(), 980, "logs wait")
		r.write("new.out", "now\n")
		now := time.Now()
		must.OK(t, os.Chtimes(r.path("new.out"), now, now))
		must.OK(t, r.shipper.Flush(t.Context()))
		for range 2 {
			time.Sleep(4 * time.Second)
			r.scan()
		}
		must.OK(t, r.shipper.Flush(t.Context()))
		r.want("new.out", "now\n")
		bytes, oldest := r.tailer.Waiting()
		says.True(t, bytes != 0 && time.Since(oldest) >= 900*time.Hour, "%d bytes wait, since %s", bytes, oldest)
	})
}
