package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// TestGenerations: what is stored after a script of what Ray, rotation and the collector do, whatever became of the
// files. See rig.play for the verbs, and text for the words.
func TestGenerations(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"growth": {`write x a; ship; write x more`, `x: a more`},
		"subfolders and bytes": {`mkdir serve/deep; write serve/deep/y.log bytes; write e.log`,
			`serve/deep/y.log: bytes; e.log:`},
		"rename": {`write x a; ship; write x tail; rename x x.1; write x b`, `x: a tail b; x.1:`},
		"rename, late line": {
			`write x a; ship; rename x x.1; write x b; ship; write x.1 late; ship; write x more`,
			`x: a b late more; x.1:`,
		},
		"renamed under the walk, which misses it": {
			`write x a; ship; write x tail; rename x ../unseen; write x b; scan; rename ../unseen x.1`,
			`x: a tail b; x.1:`,
		},
		"rename twice": {
			`write x a; ship; rename x x.1; write x b; ship; rename x.1 x.2; rename x x.1; write x c`,
			`x: a b c; x.1:; x.2:`,
		},
		"rename twice between scans": {
			`write x a; ship; rename x x.1; write x b; rename x.1 x.2; rename x x.1; write x c`, `x: a b c; x.1:; x.2:`,
		},
		"renamed before it is read": {
			`write x a; ship; write x tail; rename x x.1; write x b; scan; sleep 5s
			rename x.1 x.2; rename x x.1; write x c; try; try`, `x: a tail b c`,
		},
		"rename while down": {`write x a; ship; write x tail; rename x x.1; write x b; restart`,
			`x: a tail b; x.1:`},
		"rename and removal while down": {`write x a; ship; remove x; write x b; restart`, `x: a b`},
		"removal while down, and another inode": {
			`write x a; ship; rename x ../../kept; write x b; restart`, `x: a b`, // so that its inode is not used again
		},
		"missed by the first scan of a collector": { // the newer generation waits for the older
			`write x a; scan; rename x x.1; write x b; scan; restart; rename x.1 ../../away; scan
			sleep 1s; once; sleep 1s; once; sleep 1s; once; rename ../../away x.1`, `x: a b`,
		},
		"copy and truncate": {`write x a; ship; write x tail; copy x x.1; truncate x; write x b`, `x: a tail b; x.1:`},
		"copy, truncate and rename between scans": {
			`write x a; ship; write x tail; copy x x-1; truncate x; write x b; rename x x.1; write x c`,
			`x: a tail b c; x-1:; x.1:`,
		},
		"copy seen a scan after the truncation": { // as by a scan that listed the folder before the copy was made
			`write x a; ship; write x tail; copy x ../../copy; truncate x; write x b; scan; rename ../../copy x.1`,
			`x: a tail b; x.1:`,
		},
		"copy seen before the truncation": {
			`write x a; ship; write x tail; write x.1 a tail; scan; truncate x; scan; write x b`, `x: a tail b; x.1:`,
		},
		"copy seen while it is written": {
			`write x a; ship; write x tail; write x-1; scan; write x-1 start; scan; write x-1 rest tail; truncate x; write x b`,
			`x: a tail b; x-1:`,
		},
		"a few bytes under the name of a copy": {
			`write x a; ship; write x-1 few; write x-2 b; scan; sleep 5m`, `x: a; x-1: few; x-2: b`,
		},
		"copy and truncate while down": {
			`write x a; ship; write x tail; copy x x.1; truncate x; write x b longer; restart`,
			`x: a tail b longer; x.1:`,
		},
		"a copy that is never truncated": {`write x a; ship; write x.bak a; scan; sleep 5m`, `x: a; x.bak: a`},
		"truncated and longer":           {`write x a; ship; truncate x; write x b b b`, `x: a b b b`},
		"state lost":                     {`write x a; ship; write x more; forget; restart`, `x: a more`},
		"state lost and rotated": { // once more, never less
			`write x a; ship; rename x x.1; write x short; forget; restart`, `x: a short; x.1: a`,
		},
		"state damaged": {`write x a; ship; damage; restart; write x more`, `x: a more`},
		"gone and back": {`write x a; ship; remove x; scan; write x b`, `x: a b`},
		"removed after a throttled put": {
			`write x a; ship; write x tail; scan; sleep 1s; throttle; try; remove x; scan; write x b; scan; sleep 5s; scan; sleep 1s; once`,
			`x: a b`,
		},
		"removed after a throttled put that was stored": {
			`write x a; ship; write x tail; scan; sleep 1s; throttle late; try; remove x; scan; write x b; scan; sleep 5s; scan; sleep 1s; once`,
			`x: a tail b`,
		},
		"renamed after a throttled put that was stored": {
			`write x a; ship; write x tail; scan; sleep 1s; throttle late; try; rename x x.1; write x b; scan; sleep 5s; scan; sleep 1s; once`,
			`x: a tail b; x.1:`,
		},
		"skipped": {
			`write x a; write core.123 dump; write core-worker.log log; mkdir runtime_resources; write runtime_resources/y data
			link x link.out; link /etc etc; fifo fifo.log`,
			`x: a; core.123:; core-worker.log: log; runtime_resources/y:; link.out:; etc/hostname:; fifo.log:`,
		},
		"names that keys cannot spell": {"write a\xffb\x01.log a", `a%FFb%01.log: a`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.play(test.script)
				r.shipAll()
				for want := range strings.SplitSeq(test.want, "; ") {
					path, words, _ := strings.Cut(want, ":")
					r.want(path, text(strings.Fields(words)...))
				}
			})
		})
	}
}

// texts are what words of a script stand for; any other word is a line of its own.
var texts = map[string]string{
	"a": first("a") + "one\n", "b": first("b") + "two\n", "c": first("c") + "three\n",
	"start": first("a")[:10], "rest": first("a")[10:] + "one\n", // together a
	"longer": "longer than what was there before\n", "bytes": "\xff\x00\xfe",
}

func text(words ...string) string {
	var out strings.Builder
	for _, word := range words {
		if known, ok := texts[word]; ok {
			out.WriteString(known)
		} else {
			out.WriteString(word + "\n")
		}
	}
	return out.String()
}

// play does what a script says: a verb and its operands a step, with a semicolon or a line break between two.
func (r *rig) play(script string) {
	r.t.Helper()
	for step := range strings.SplitSeq(strings.ReplaceAll(script, "\n", ";"), ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		verb, words := words[0], append(words[1:], "", "")
		name, to := words[0], words[1]
		switch verb {
		case "write":
			r.write(name, text(words[1:len(words)-2]...))
		case "mkdir":
			r.mkdir(name)
		case "rename":
			r.rename(name, to)
		case "remove":
			r.remove(name)
		case "copy":
			data := must.Get(os.ReadFile(r.path(name)))(r.t)
			must.OK(r.t, os.WriteFile(r.path(to), data, 0o644))
		case "truncate":
			r.truncate(name)
		case "link": // to a log, or by an absolute path
			if !filepath.IsAbs(name) {
				name = r.path(name)
			}
			must.OK(r.t, os.Symlink(name, r.path(to)))
		case "fifo":
			must.OK(r.t, syscall.Mkfifo(r.path(name), 0o644))
		case "scan":
			r.scan()
		case "ship":
			r.shipAll()
		case "once": // what is due, and no error
			_, _, err := r.shipper.ShipOnce(r.t.Context())
			must.OK(r.t, err)
		case "try": // what is due, with whatever comes of it
			_, _, _ = r.shipper.ShipOnce(r.t.Context())
		case "throttle": // the next put; late: only after it was stored
			fault := storetest.Throttled
			if name == "late" {
				fault = storetest.LostThrottled
			}
			r.store.Fault = func(string) storetest.Fault { r.store.Fault = nil; return fault }
		case "sleep":
			d := must.Get(time.ParseDuration(name))(r.t)
			time.Sleep(d)
		case "restart":
			r.restart()
		case "forget": // the state is lost
			r.state = r.t.TempDir()
		case "damage":
			must.OK(r.t, os.WriteFile(filepath.Join(r.state, session+".json"), []byte("{"), 0o600))
		default:
			r.t.Fatalf("no step %q", step)
		}
	}
}

// TestSwappedFile: between a scan and the upload a log is replaced by something that must not be read.
func TestSwappedFile(t *testing.T) {
	for name, swap := range map[string]func(*rig){
		"link out of the folder": func(r *rig) {
			must.OK(r.t, os.Symlink("/etc/hostname", r.path("x.out")))
		},
		"FIFO": func(r *rig) {
			must.OK(r.t, syscall.Mkfifo(r.path("x.out"), 0o644))
		},
		"another file": func(r *rig) { r.write("x.out", "other\n") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.write("x.out", first("a"))
				r.scan()
				r.remove("x.out")
				swap(r)
				time.Sleep(time.Second)
				_, _, err := r.shipper.ShipOnce(t.Context())
				if err == nil || len(r.store.Keys()) != 0 {
					t.Errorf("%v, stored %v", err, r.store.Keys())
				}
				want := ""
				if name == "another file" {
					want = "other\n"
				}
				r.shipAll()
				r.want("x.out", want)
			})
		})
	}
}

// rotateMany ships logs of workers, rotates all of them and begins new ones.
func (r *rig) rotateMany(many int) {
	for i := range many {
		r.write(fmt.Sprintf("worker-%d.out", i), first("old"))
	}
	r.shipAll()
	for i := range many {
		name := fmt.Sprintf("worker-%d.out", i)
		r.rename(name, name+".1")
		r.write(name, first("new"))
	}
}

// TestStoreThatLostObjects: what is known of all logs is not written once for each log that begins again.
func TestStoreThatLostObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const many = 50
		r.rotateMany(many)
		r.shipAll()
		var last os.FileInfo
		saves := 0
		r.store = &storetest.Store{Fault: func(string) storetest.Fault {
			if now, err := os.Stat(filepath.Join(r.state, session+".json")); err != nil {
				t.Error(err)
			} else if last == nil || !os.SameFile(last, now) || last.ModTime() != now.ModTime() {
				last = now
				saves++
			}
			return storetest.None
		}}
		r.restart()
		r.shipAll()
		if saves > 8 {
			t.Errorf("the state was saved %d times for %d logs", saves, many)
		}
		for i := range many {
			r.want(fmt.Sprintf("worker-%d.out", i), first("old")+first("new"))
		}
	})
}

// TestManyRotateTogether: what is known of all logs is written once when many of them go on in another file, not once
// for each.
func TestManyRotateTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		log, said := logtest.NewNullLogger()
		r.log = log
		r.restart()
		const many = 50
		r.rotateMany(many)
		r.scan()
		time.Sleep(4 * time.Second) // rotated files settle
		r.scan()
		// Each save fails and says so: they can be counted.
		must.OK(t, os.Rename(r.state, r.state+".away"))
		if _, _, err := r.shipper.ShipOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		must.OK(t, os.Rename(r.state+".away", r.state))
		saves := 0
		for _, entry := range said.AllEntries() {
			if strings.HasPrefix(entry.Message, "could not save that a log was rotated") {
				saves++
			}
		}
		if saves != 1 {
			t.Errorf("the state was saved %d times, want once", saves)
		}
		r.shipAll()
		for i := range many {
			r.want(fmt.Sprintf("worker-%d.out", i), first("old")+first("new"))
		}
	})
}

// TestTruncatedWhileShipped: a log is copied and truncated after its chunk was opened and before the store has read it.
// By then the log has as many new bytes: they are not stored in the place of the old ones.
func TestTruncatedWhileShipped(t *testing.T) {
	for name, copies := range map[string]bool{"with a copy": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				old, fresh := first("old")+strings.Repeat("an old line\n", 100),
					first("new")+strings.Repeat("a new line\n", 1000)
				done := false
				r.store.Fault = func(string) storetest.Fault {
					if !done {
						done = true
						r.copyTruncate("x.out", "x.out-1")
						if !copies {
							r.remove("x.out-1")
						}
						r.write("x.out", fresh)
					}
					return storetest.None
				}
				r.write("x.out", old)
				r.scan()
				time.Sleep(time.Second)
				if _, _, err := r.shipper.ShipOnce(t.Context()); err == nil || len(r.store.Keys()) > 0 {
					t.Errorf("%v, stored %v", err, r.store.Keys())
				}
				r.shipAll()
				want := fresh
				if copies {
					want = old + fresh
				}
				r.want("x.out", want)
			})
		})
	}
}
