package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/pkg/collector/internal/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

const session = "session_2026-11-20_23-19-45_581717_22125"

var nodeID = rayid.Node{0x11, 0xdd, 27: 0x58}

func key(session string, node rayid.Node, path string) string {
	return layout.LogKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: session}, node, path)
}

func silent() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// rig is a tailer with a shipper, and the folder they follow.
type rig struct {
	t           *testing.T
	tmp, state  string
	store       *storetest.Store
	compression layout.Compression
	chunk       int64
	log         logrus.FieldLogger
	node        func(context.Context, string) (rayid.Node, error)

	tailer  *logs.Tailer
	shipper *ship.Shipper
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, tmp: t.TempDir(), state: t.TempDir(), store: &storetest.Store{}, log: silent(),
		node: func(context.Context, string) (rayid.Node, error) { return nodeID, nil }}
	r.mkdir(".")
	r.restart()
	return r
}

func (r *rig) restart() {
	r.tailer = logs.New(logs.Options{Dir: r.tmp, StateDir: r.state, Key: key,
		Node: func(ctx context.Context, s string) (rayid.Node, error) { return r.node(ctx, s) }, Log: r.log, Registerer: prometheus.NewRegistry()})
	var err error
	r.shipper, err = ship.New(ship.Options{
		Store:        r.store,
		Groups:       []ship.Group{{Name: "logs", Sources: r.tailer.Sources, Naming: ship.LogNames, Compression: r.compression}},
		PushInterval: time.Nanosecond, MaxChunk: r.chunk, Concurrency: 1, Dir: r.state, Log: r.log, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.tmp, session, "logs", name) }

func (r *rig) mkdir(name string) {
	if err := os.MkdirAll(r.path(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) write(name, data string) {
	f, err := os.OpenFile(r.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := f.WriteString(data); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) rename(from, to string) {
	if err := os.Rename(r.path(from), r.path(to)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	if err := os.Remove(r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// copyTruncate is what logrotate's copytruncate does.
func (r *rig) copyTruncate(from, to string) {
	data, err := os.ReadFile(r.path(from))
	if err == nil {
		err = os.WriteFile(r.path(to), data, 0o644)
	}
	if err == nil {
		err = os.Truncate(r.path(from), 0)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) scan() {
	if _, err := r.tailer.Scan(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// shipAll scans and ships until nothing is left.
func (r *rig) shipAll() {
	r.t.Helper()
	for range 4 {
		r.scan()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		if err := r.shipper.Flush(ctx); err != nil {
			r.t.Fatal(err)
		}
		cancel()
		time.Sleep(4 * time.Second) // rotated files settle
	}
}

func (r *rig) joined(node rayid.Node, name string) string {
	r.t.Helper()
	data, err := r.store.Joined(key(session, node, name), func(k string) (string, int64) {
		whole, offset, _ := ship.LogNames.Parse(k)
		return whole, offset
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *rig) want(name, data string) {
	r.t.Helper()
	r.wantOf(nodeID, name, data)
}

func (r *rig) wantOf(node rayid.Node, name, data string) {
	r.t.Helper()
	if got := r.joined(node, name); got != data {
		r.t.Errorf("%s: stored %d bytes %.200q, want %d bytes %.200q", name, len(got), got, len(data), data)
	}
}

// first is a first line long enough to tell files apart.
func first(name string) string {
	return fmt.Sprintf("[2026-11-20 23:19:46,%s] (raylet) main.cc:123: the first line of this file\n", name)
}

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
		"copy seen before the truncation": {
			func(r *rig) {
				r.write("x.out", a)
				r.shipAll()
				r.write("x.out", "tail\n")
				r.write("x.out.1", a+"tail\n")
				r.scan()
				if err := os.Truncate(r.path("x.out"), 0); err != nil {
					r.t.Fatal(err)
				}
				r.scan()
				r.write("x.out", b)
			},
			map[string]string{"x.out": a + "tail\n" + b, "x.out.1": ""},
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
				if err := os.WriteFile(r.path("x.out"), []byte(b+b+b), 0o644); err != nil {
					r.t.Fatal(err)
				}
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
				if err := os.WriteFile(filepath.Join(r.state, session+".json"), []byte("{"), 0o600); err != nil {
					r.t.Fatal(err)
				}
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
				if err := os.Symlink(r.path("x.out"), r.path("link.out")); err != nil {
					r.t.Fatal(err)
				}
				if err := os.Symlink("/etc", r.path("etc")); err != nil {
					r.t.Fatal(err)
				}
				if err := syscall.Mkfifo(r.path("fifo.log"), 0o644); err != nil {
					r.t.Fatal(err)
				}
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
			if err := os.Symlink("/etc/hostname", r.path("x.out")); err != nil {
				r.t.Fatal(err)
			}
		},
		"FIFO": func(r *rig) {
			if err := syscall.Mkfifo(r.path("x.out"), 0o644); err != nil {
				r.t.Fatal(err)
			}
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

// TestSessions: those left behind and new ones are followed, and those that are over are removed if that is asked for.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		past := time.Now().Add(-time.Hour)
		sessions := []string{"session_2026-01-01_00-00-00_000000_1", session, "session_2026-12-31_00-00-00_000000_1"}
		for _, s := range sessions {
			path := filepath.Join(r.tmp, s, "logs", "serve", "x.log")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/somewhere/else/"+sessions[2], filepath.Join(r.tmp, "session_latest")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.tmp, "session_file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		r.node = func(_ context.Context, s string) (rayid.Node, error) {
			if s == sessions[0] {
				return rayid.Node{}, fmt.Errorf("not known")
			}
			return nodeID, nil
		}
		r.restart()
		r.shipAll()
		told, running, err := r.tailer.Sessions()
		if err != nil || running != sessions[2] || len(told) != 3 || told[0].Stored || !told[1].Stored || !told[1].LastWrite.Equal(past) {
			t.Errorf("sessions %+v, running %s, %v", told, running, err)
		}
		for i, s := range sessions {
			if stored := r.store.Object(key(s, nodeID, "serve/x.log")) != nil; stored != (i > 0) {
				t.Errorf("%s is stored: %t", s, stored)
			}
		}
		r.tailer = logs.New(logs.Options{Dir: r.tmp, StateDir: r.state, Key: key, Node: r.node, Log: r.log, Registerer: prometheus.NewRegistry(), DeleteShipped: true})
		r.scan()
		for _, s := range r.tailer.Sources() { // what is stored the listing tells
			if err := s.Resume(int64(len(r.store.Object(s.Whole())))); err != nil {
				t.Error(err)
			}
		}
		r.scan()
		for i, s := range sessions {
			_, err := os.Stat(filepath.Join(r.tmp, s, "logs", "serve", "x.log"))
			if left := err == nil; left != (i != 1) {
				t.Errorf("the log of %s is left: %t", s, left)
			}
		}
		if err := os.RemoveAll(filepath.Join(r.tmp, session)); err != nil {
			t.Fatal(err)
		}
		r.scan()
		if _, err := os.Stat(filepath.Join(r.state, session+".json")); !os.IsNotExist(err) {
			t.Errorf("the state of a session that is gone: %v", err)
		}
	})
}

// TestLoss: what cannot be stored any more is counted and said.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		log, hook := logtest.NewNullLogger()
		r.log = log
		r.restart()
		r.write("x.out", first("a"))
		r.shipAll()
		r.write("x.out", "tail\n")
		r.scan()
		r.remove("x.out")
		r.scan()
		r.scan()
		r.want("x.out", first("a"))
		if e := hook.LastEntry(); e == nil || !strings.Contains(e.Message, "its last 5 bytes") {
			t.Errorf("logged %v", e)
		}
	})
}

func TestNoFolder(t *testing.T) {
	r := newRig(t)
	r.tmp = filepath.Join(r.tmp, "not yet")
	r.restart()
	if dirs, err := r.tailer.Scan(t.Context()); err != nil || len(dirs) != 0 {
		t.Errorf("%v, %v", dirs, err)
	}
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

// TestNodeRestartsInItsPod: the raylet has a new ID, and goes on in the same session's folder.
func TestNodeRestartsInItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b, c := first("a"), first("b"), first("c")
		r.write("raylet.out", a)
		r.write("worker.err", "")
		r.shipAll()
		second := rayid.Node{0x22}
		r.node = func(context.Context, string) (rayid.Node, error) { return second, nil }
		r.scan()
		r.write("raylet.out", b)
		r.write("worker-2.out", c)
		r.shipAll()
		r.restart()
		r.shipAll()
		r.rename("raylet.out", "raylet.out.1")
		r.write("raylet.out", c)
		r.shipAll()
		r.wantOf(nodeID, "raylet.out", a)
		r.wantOf(second, "raylet.out", b+c)
		r.wantOf(second, "worker-2.out", c)
		if r.store.Object(key(session, nodeID, "worker.err")) == nil || r.store.Object(key(session, second, "worker.err")) != nil {
			t.Errorf("stored %v", r.store.Keys())
		}
	})
}

// TestLogsMovedByManifest: KubeRay's manifests move a container's logs away when the next one starts.
func TestLogsMovedByManifest(t *testing.T) {
	for name, restart := range map[string]func(*rig){"collector lives on": func(*rig) {}, "collector restarts too": (*rig).restart} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				a, b := first("a"), first("b")
				r.write("raylet.out", a)
				r.shipAll()
				r.write("raylet.out", "the last words\n")
				r.write("never-seen.log", b)
				to := filepath.Join(r.tmp, "prev-logs", session, nodeID.String())
				if err := os.MkdirAll(to, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(r.path("."), filepath.Join(to, "logs")); err != nil {
					t.Fatal(err)
				}
				r.mkdir(".")
				second := rayid.Node{0x22}
				r.node = func(context.Context, string) (rayid.Node, error) { return second, nil }
				restart(r)
				r.write("raylet.out", b)
				r.shipAll()
				r.wantOf(nodeID, "raylet.out", a+"the last words\n")
				r.wantOf(nodeID, "never-seen.log", b)
				r.wantOf(second, "raylet.out", b)
				// Without the state the moved logs are found by the folder they lie in.
				r.state = t.TempDir()
				r.restart()
				r.shipAll()
				r.wantOf(nodeID, "raylet.out", a+"the last words\n")
				r.wantOf(second, "raylet.out", b)
			})
		})
	}
}

// TestRenamedBeforeItIsRead: generations keep their order though the older was renamed after the scan that saw it.
func TestRenamedBeforeItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.write("x.out", first("a"))
		r.shipAll()
		r.write("x.out", "tail\n")
		r.rename("x.out", "x.out.1")
		r.write("x.out", first("b"))
		r.scan()
		time.Sleep(5 * time.Second)
		r.rename("x.out.1", "x.out.2")
		r.rename("x.out", "x.out.1")
		r.write("x.out", first("c"))
		_, _, _ = r.shipper.ShipOnce(t.Context())
		_, _, _ = r.shipper.ShipOnce(t.Context())
		r.shipAll()
		r.want("x.out", first("a")+"tail\n"+first("b")+first("c"))
	})
}

func TestEmptyLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.write("worker.err", "")
		r.write("worker.out", "")
		r.shipAll()
		r.restart()
		r.shipAll()
		r.write("worker.out", "a line\n")
		r.shipAll()
		r.restart()
		r.write("worker.out", "another\n")
		r.shipAll()
		r.want("worker.out", "a line\nanother\n")
		if got := r.store.Object(key(session, nodeID, "worker.err")); got == nil || len(got) != 0 {
			t.Errorf("an empty log is stored as %q", got)
		}
		if puts, _ := r.store.Requests(); puts != 4 {
			t.Errorf("%d puts", puts)
		}
	})
}

// TestRandomSchedules compares what is stored with what was written, whatever happened in which order.
func TestRandomSchedules(t *testing.T) {
	seeds := 80
	if testing.Short() {
		seeds = 20
	}
	faults := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			r := newRig(t)
			r.chunk = 1 + random.Int64N(200)
			r.restart()
			written := map[string]*bytes.Buffer{}
			paths := []string{"raylet.out", "serve/replica.log", "worker-1.out"}
			r.mkdir("serve")
			for _, p := range paths {
				written[p] = &bytes.Buffer{}
			}
			r.store.Fault = func(string) storetest.Fault {
				if random.IntN(5) > 0 {
					return storetest.None
				}
				faults++
				return []storetest.Fault{storetest.Refuse, storetest.LostReply, storetest.Denied, storetest.Broken}[random.IntN(4)]
			}
			r.store.ListFault = func(string) error {
				if random.IntN(10) == 0 {
					return storetest.ErrFault
				}
				return nil
			}
			line := 0
			write := func(p string) {
				for range 1 + random.IntN(5) {
					line++
					text := fmt.Sprintf("line %d of %s: %0*d\n", line, p, 32+random.IntN(80), line) // shorter than a print it could be anybody's
					r.write(p, text)
					written[p].WriteString(text)
				}
			}
			rotations := 0
			for range 60 {
				p := paths[random.IntN(len(paths))]
				switch random.IntN(14) {
				default:
					write(p)
				case 0, 1:
					r.scan()
				case 2, 3:
					r.scan()
					_, _, _ = r.shipper.ShipOnce(t.Context())
				case 4:
					r.restart()
				case 5:
					time.Sleep(time.Duration(random.IntN(10)) * time.Second)
				case 8:
					// What is stored may vanish at any time, known to the collector or not.
					r.scan()
					time.Sleep(5 * time.Second) // rotated files settle
					r.scan()
					if len(r.tailer.Sources()) > 0 {
						continue
					}
					old, err := filepath.Glob(r.path(p) + "*")
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range old {
						if name != r.path(p) || random.IntN(3) == 0 {
							_ = os.Remove(name)
						}
					}
				case 6, 7:
					if _, err := os.Stat(r.path(p)); err != nil || written[p].Len() == 0 {
						continue
					}
					// A generation that no scan has seen is known by its number only if the one before it was known.
					r.scan()
					rotations++
					if random.IntN(2) == 0 {
						for i := 9; i > 0; i-- {
							_ = os.Rename(r.path(fmt.Sprintf("%s.%d", p, i)), r.path(fmt.Sprintf("%s.%d", p, i+1)))
						}
						r.rename(p, p+".1")
					} else {
						r.copyTruncate(p, fmt.Sprintf("%s-%d", p, rotations))
					}
					write(p)
				}
			}
			r.store.Fault, r.store.ListFault = nil, nil
			r.shipAll()
			for p, data := range written {
				r.want(p, data.String())
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schedules, %d faults", seeds, faults)
}
