package logs_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// story is a script of what Ray, rotation and the collector do, and what is stored in the end: "log: words", with "; "
// between two. Logs of the second node, which the step "second" makes the running one, have "second/" before the name.
// See verbs for the steps, and text for the words.
type story struct{ script, want string }

var secondNode = rayid.Node{0x22}

// tell plays each story with a rig of its own, which prepare has changed.
func tell(t *testing.T, stories map[string]story, prepare ...func(*rig)) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for _, change := range prepare {
					change(r)
				}
				r.play(story.script)
				r.shipAll()
				for want := range strings.SplitSeq(story.want, "; ") {
					path, words, _ := strings.Cut(want, ":")
					r.has(path, strings.Fields(words)...)
				}
			})
		})
	}
}

// play does what a script says: a verb and its operands a step, with a semicolon or a line break between two.
func (r *rig) play(script string) {
	r.t.Helper()
	for step := range strings.SplitSeq(strings.ReplaceAll(script, "\n", ";"), ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		do := verbs[words[0]]
		must.True(r.t, do != nil, "no step %q", step)
		if do(r, words[1:]); r.t.Failed() {
			r.t.Fatalf("at the step %q", strings.TrimSpace(step))
		}
	}
}

// has checks what is stored of a log.
func (r *rig) has(path string, words ...string) {
	r.t.Helper()
	node := nodeID
	if name, second := strings.CutPrefix(path, "second/"); second {
		node, path = secondNode, name
	}
	r.wantOf(node, path, text(words...))
}

// texts are what words of a script stand for; any other word is a line of its own.
var texts = map[string]string{
	"a": first("a") + "one\n", "b": first("b") + "two\n", "c": first("c") + "three\n",
	"start": first("a")[:10], "rest": first("a")[10:] + "one\n", // together a
	"first": first("a"), "half": first("half")[:40],
	"banner": strings.Repeat(first("a"), 20), // more than what a log's beginning is told by
	"lines":  strings.Repeat(first("c"), 10), // more than may be overwritten at a log's end
	// of a file that is made longer than its text; less is what b leaves of room
	"room": strings.Repeat("\x00", 4096), "less": strings.Repeat("\x00", 4096-len(first("b")+"two\n")),
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

var verbs = func() map[string]func(*rig, []string) {
	all := maps.Clone(actions)
	maps.Copy(all, checks)
	return all
}()

// actions change something. Names of logs are paths in the session's folder of logs.
var actions = map[string]func(r *rig, on []string){
	"write":  func(r *rig, on []string) { r.write(on[0], text(on[1:]...)) },
	"mkdir":  func(r *rig, on []string) { r.mkdir(on[0]) },
	"rename": func(r *rig, on []string) { r.rename(on[0], on[1]) },
	"remove": func(r *rig, on []string) { r.remove(on[0]) },
	"truncate": func(r *rig, on []string) {
		r.truncated = must.Get(os.Stat(r.path(on[0])))(r.t).Size()
		must.OK(r.t, os.Truncate(r.path(on[0]), 0))
	},
	"goon": func(r *rig, on []string) { // at the place where the log ended before it was truncated
		f := must.Get(os.OpenFile(r.path(on[0]), os.O_WRONLY, 0))(r.t)
		must.Get(f.WriteAt([]byte(text(on[1:]...)), r.truncated))(r.t)
		must.OK(r.t, f.Close())
	},
	"replace": func(r *rig, on []string) { // by another file
		beside := filepath.Join(r.tmp, "beside")
		must.OK(r.t, os.WriteFile(beside, []byte(text(on[1:]...)), 0o644))
		must.OK(r.t, os.Rename(beside, r.path(on[0])))
	},
	"overwrite": func(r *rig, on []string) { // in place
		must.OK(r.t, os.WriteFile(r.path(on[0]), []byte(text(on[1:]...)), 0o644))
	},
	"copy": func(r *rig, on []string) {
		must.OK(r.t, os.WriteFile(r.path(on[1]), must.Get(os.ReadFile(r.path(on[0])))(r.t), 0o644))
	},
	"link": func(r *rig, on []string) { // to a log, or by an absolute path
		to := on[0]
		if !filepath.IsAbs(to) {
			to = r.path(to)
		}
		must.OK(r.t, os.Symlink(to, r.path(on[1])))
	},
	"fifo":  func(r *rig, on []string) { must.OK(r.t, syscall.Mkfifo(r.path(on[0]), 0o644)) },
	"age":   func(r *rig, on []string) { r.age(on[0], must.Get(time.ParseDuration(on[1]))(r.t)) },
	"sleep": func(r *rig, on []string) { time.Sleep(must.Get(time.ParseDuration(on[0]))(r.t)) },
	"chmod": func(r *rig, on []string) {
		mode := must.Get(strconv.ParseUint(on[0], 8, 32))(r.t)
		must.OK(r.t, os.Chmod(r.path(on[1]), os.FileMode(mode)))
	},
	"unprivileged": func(r *rig, _ []string) { r.withoutRights() },
	"move": func(r *rig, _ []string) { // all logs, as KubeRay's manifests do before the next container starts
		to := filepath.Join(r.tmp, "prev-logs", session, nodeID.String())
		must.OK(r.t, os.MkdirAll(to, 0o755))
		must.OK(r.t, os.Rename(r.path("."), filepath.Join(to, "logs")))
		r.mkdir(".")
	},
	"unmove": func(r *rig, _ []string) { must.OK(r.t, os.RemoveAll(filepath.Join(r.tmp, "prev-logs"))) },
	"second": func(r *rig, _ []string) { // the raylet has a new ID
		r.node = func(context.Context, string) (rayid.Node, error) { return secondNode, nil }
	},
	"scan":   func(r *rig, _ []string) { r.scan() },
	"ship":   func(r *rig, _ []string) { r.shipAll() },
	"flush":  func(r *rig, _ []string) { must.OK(r.t, r.shipper.Flush(r.t.Context())) },
	"settle": func(r *rig, _ []string) { r.settle() },
	"once": func(r *rig, _ []string) { // what is due, and no error
		_, _, err := r.shipper.ShipOnce(r.t.Context())
		must.OK(r.t, err)
	},
	"try": func(r *rig, _ []string) { // what is due, with whatever comes of it
		_, _, _ = r.shipper.ShipOnce(r.t.Context())
	},
	"throttle": func(r *rig, on []string) { // the next put; late: only after it was stored
		fault := storetest.Throttled
		if slices.Equal(on, []string{"late"}) {
			fault = storetest.LostThrottled
		}
		r.store.Fault = func(string) storetest.Fault { r.store.Fault = nil; return fault }
	},
	"drain":   func(r *rig, _ []string) { r.tailer.Drain() },
	"restart": func(r *rig, _ []string) { r.restart() },
	"remount": func(r *rig, _ []string) { r.remount() },
	"forget":  func(r *rig, _ []string) { r.state = r.t.TempDir() }, // the state is lost
	"damage": func(r *rig, _ []string) {
		must.OK(r.t, os.WriteFile(filepath.Join(r.state, session+".json"), []byte("{"), 0o600))
	},
}

// checks change nothing.
var checks = map[string]func(r *rig, on []string){
	"has": func(r *rig, on []string) { r.has(on[0], on[1:]...) },
	"nothing": func(r *rig, _ []string) { // is in the store
		if keys := r.store.Keys(); len(keys) > 0 {
			r.t.Errorf("stored %q", keys)
		}
	},
	"fails": func(r *rig, _ []string) { // something that is due
		if _, _, err := r.shipper.ShipOnce(r.t.Context()); err == nil {
			r.t.Error("no error")
		}
	},
	"done":   func(r *rig, _ []string) { r.wantStored(true) },
	"undone": func(r *rig, _ []string) { r.wantStored(false) },
	"again": func(r *rig, _ []string) { // a scan is wanted
		if !r.tailer.NeedsScan() {
			r.t.Error("no other scan is wanted")
		}
	},
	"enough": func(r *rig, _ []string) { // no scan is wanted, and all was read
		if err := r.tailer.Unread(); err != nil || r.tailer.NeedsScan() {
			r.t.Errorf("unread: %v, another scan is wanted: %t", err, r.tailer.NeedsScan())
		}
	},
	"waits": func(r *rig, on []string) { // so many bytes, and a time if there are any
		if n, oldest := r.tailer.Waiting(); n != int64(len(text(on...))) || oldest.IsZero() != (n == 0) {
			r.t.Errorf("%d bytes wait since %v", n, oldest)
		}
	},
	"lost": func(r *rig, on []string) {
		if n := r.tailer.LostBytes(); n != float64(len(text(on...))) {
			r.t.Errorf("%v bytes count as lost", n)
		}
	},
	"active": func(r *rig, _ []string) { // no log is idle
		if n := r.tailer.Idle(); n > 0 {
			r.t.Errorf("%d logs are idle", n)
		}
	},
	"gone": func(r *rig, on []string) {
		if r.isThere(on[0]) {
			r.t.Errorf("%s is there", on[0])
		}
	},
	"empty": func(r *rig, on []string) { // logs that are listed as such, all of the first node
		if r.wantEmpty(on...); r.empty[secondNode] != nil {
			r.t.Errorf("the second node's empty logs are %q", r.empty[secondNode])
		}
	},
}

// wantStored checks whether nothing of the rig's session is still to be stored.
func (r *rig) wantStored(want bool) { says.Equal(r.t, allStored(r.t, r), want, "all is stored") }
