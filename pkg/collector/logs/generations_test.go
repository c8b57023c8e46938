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

func TestGenerations(t *testing.T) {
	a, b, c := first("a")+"one\n", first("b")+"two\n", first("c")+"three\n"
	for name, test := range map[string]struct {
		steps func(*rig)
		want  map[string]string
	}{
		"growth": {
			func(r *rig) { r.write("x.out", a); r.shipAll(); r.write("x.out", "more\n") },
			map[string]string{"x.out": a + "more\n"},
		},
		"subfolders and bytes": {
			func(r *rig) { r.mkdir("serve/deep"); r.write("serve/deep/x.log", "\xff\x00\xfe"); r.write("e.log", "") },
			map[string]string{"serve/deep/x.log": "\xff\x00\xfe", "e.log": ""},
		},
		"rename": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.rename("x.out", "x.out.1")
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"rename, late line": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.rename("x.out", "x.out.1")
				r.write("x.out", b)
				r.shipAll()
				r.write("x.out.1", "late\n")
				r.shipAll()
				r.write("x.out", "more\n")
			},
			map[string]string{"x.out": a + b + "late\nmore\n", "x.out.1": ""},
		},
		"renamed under the walk, which misses it": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.rename("x.out", "../unseen")
				r.write("x.out", b)
				r.scan()
				r.rename("../unseen", "x.out.1")
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"rename twice": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.rename("x.out", "x.out.1")
				r.write("x.out", b)
				r.shipAll()
				r.rename("x.out.1", "x.out.2")
				r.rename("x.out", "x.out.1")
				r.write("x.out", c)
			},
			map[string]string{"x.out": a + b + c, "x.out.1": "", "x.out.2": ""},
		},
		"rename twice between scans": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.rename("x.out", "x.out.1")
				r.write("x.out", b)
				r.rename("x.out.1", "x.out.2")
				r.rename("x.out", "x.out.1")
				r.write("x.out", c)
			},
			map[string]string{"x.out": a + b + c, "x.out.1": "", "x.out.2": ""},
		},
		"rename while down": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.rename("x.out", "x.out.1")
				r.write("x.out", b)
				r.restart()
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"rename and removal while down": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.remove("x.out")
				r.write("x.out", b)
				r.restart()
			},
			map[string]string{"x.out": a + b},
		},
		"removal while down, and another inode": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.rename("x.out", "../../kept") // so that its inode is not used again
				r.write("x.out", b)
				r.restart()
			},
			map[string]string{"x.out": a + b},
		},
		"copy and truncate": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.copyTruncate("x.out", "x.out.1")
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"copy, truncate and rename between scans": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.copyTruncate("x.out", "x.out-1")
				r.write("x.out", b)
				r.rename("x.out", "x.out.1")
				r.write("x.out", c)
			},
			map[string]string{"x.out": a + "tail\n" + b + c, "x.out-1": "", "x.out.1": ""},
		},
		"copy seen a scan after the truncation": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.copyTruncate("x.out", "../../copy")
				r.write("x.out", b)
				r.scan() // as one that listed the folder before the copy was made
				r.rename("../../copy", "x.out.1")
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"copy seen before the truncation": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.write("x.out.1", a+"tail\n")
				r.scan()
				must.OK(r.t, os.Truncate(r.path("x.out"), 0))
				r.scan()
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
		},
		"copy seen while it is written": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.write("x.out-1", "")
				r.scan()
				r.write("x.out-1", a[:10])
				r.scan()
				r.write("x.out-1", a[10:]+"tail\n")
				must.OK(r.t, os.Truncate(r.path("x.out"), 0))
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out-1": ""},
		},
		"a few bytes under the name of a copy": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out-1", "few\n")
				r.write("x.out-2", b)
				r.scan()
				time.Sleep(5 * time.Minute)
			},
			map[string]string{"x.out": a, "x.out-1": "few\n", "x.out-2": b},
		},
		"copy and truncate while down": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.copyTruncate("x.out", "x.out.1")
				r.write("x.out", b+"longer than what was there before\n")
				r.restart()
			},
			map[string]string{"x.out": a + "tail\n" + b + "longer than what was there before\n", "x.out.1": ""},
		},
		"a copy that is never truncated": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out.bak", a)
				r.scan()
				time.Sleep(5 * time.Minute)
			},
			map[string]string{"x.out": a, "x.out.bak": a},
		},
		"truncated and longer": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				must.OK(r.t, os.WriteFile(r.path("x.out"), []byte(b+b+b), 0o644))
			},
			map[string]string{"x.out": a + b + b + b},
		},
		"state lost": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "more\n")
				r.state = r.t.TempDir()
				r.restart()
			},
			map[string]string{"x.out": a + "more\n"},
		},
		"state lost and rotated": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.rename("x.out", "x.out.1")
				r.write("x.out", "short\n")
				r.state = r.t.TempDir()
				r.restart()
			},
			map[string]string{"x.out": a + "short\n", "x.out.1": a}, // once more, never less
		},
		"state damaged": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				must.OK(r.t, os.WriteFile(filepath.Join(r.state, session+".json"), []byte("{"), 0o600))
				r.restart()
				r.write("x.out", "more\n")
			},
			map[string]string{"x.out": a + "more\n"},
		},
		"gone and back": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.remove("x.out")
				r.scan()
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + b},
		},
		"skipped": {
			func(r *rig) {
				r.write("x.out", a)
				r.write("core.123", "dump")
				r.write("core-worker.log", "log")
				r.mkdir("runtime_resources")
				r.write("runtime_resources/x", "data")
				must.OK(r.t, os.Symlink(r.path("x.out"), r.path("link.out")))
				must.OK(r.t, os.Symlink("/etc", r.path("etc")))
				must.OK(r.t, syscall.Mkfifo(r.path("fifo.log"), 0o644))
			},
			map[string]string{"x.out": a, "core.123": "", "core-worker.log": "log", "runtime_resources/x": "", "link.out": "", "etc/hostname": "", "fifo.log": ""},
		},
		"names that keys cannot spell": {
			func(r *rig) { r.write("a\xffb\n.log", a) },
			map[string]string{"a%FFb%0A.log": a},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				test.steps(r)
				r.shipAll()
				for path, want := range test.want {
					r.want(path, want)
				}
			})
		})
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

// TestManyRotateTogether: what is known of all logs is written once when many of them go on in another file, not once for each.
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

// TestTruncatedWhileShipped: a log is copied and truncated after its chunk was opened and before the store has read it. By then the log has
// as many new bytes: they are not stored in the place of the old ones.
func TestTruncatedWhileShipped(t *testing.T) {
	for name, copies := range map[string]bool{"with a copy": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				old, fresh := first("old")+strings.Repeat("an old line\n", 100), first("new")+strings.Repeat("a new line\n", 1000)
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

// TestMissedAfterRestart: the first scan of a collector misses a rotated log, because it is renamed at that moment. The newer generation
// waits for it.
func TestMissedAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.write("x.out", first("old"))
		r.scan()
		r.rename("x.out", "x.out.1")
		r.write("x.out", first("new"))
		r.scan()
		r.restart()
		away := r.tmp + "/away"
		must.OK(t, os.Rename(r.path("x.out.1"), away))
		r.scan()
		for range 3 {
			time.Sleep(time.Second)
			if _, _, err := r.shipper.ShipOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		must.OK(t, os.Rename(away, r.path("x.out.1")))
		r.shipAll()
		r.want("x.out", first("old")+first("new"))
	})
}
