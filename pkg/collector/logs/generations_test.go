package logs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// TestGenerations: what is stored after a script of what Ray, rotation and the collector do, whatever became of the
// files.
func TestGenerations(t *testing.T) {
	tell(t, map[string]story{
		"growth": {`write x a; ship; write x more`, `x: a more`},
		"subfolders and bytes": {`mkdir serve/deep; write serve/deep/y.log bytes; write e.log`,
			`serve/deep/y.log: bytes; e.log:`},
		"rename": {`write x a; ship; write x tail; rename x x.1; write x b`, `x: a tail b; x.1:`},
		"rotated long before a start": { // a collector that is killed soon after each has stored the next generation
			`write x a; ship; write x tail; age x 10s; rename x x.1; write x b; restart; scan; flush; has x a tail b`,
			`x: a tail b; x.1:`,
		},
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
		"rename twice between scans, as processes in C++ name it": {
			`mkdir s; write s/x.out a; ship; rename s/x.out s/x.1.out; write s/x.out b
			rename s/x.1.out s/x.2.out; rename s/x.out s/x.1.out; write s/x.out c; write s/1.out d`,
			`s/x.out: a b c; s/x.1.out:; s/x.2.out:; s/1.out: d`,
		},
		"removed, and others with numbers in their names": {
			`write x.out a; ship; remove x.out; ship; ship; write x.1.out b; write x.2.out c; ship
			write x.2.out d; write x.1.out e`,
			`x.out: a; x.1.out: b e; x.2.out: c d`,
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
		"lines between the copy and the truncation": { // rotation itself loses them
			`write x banner a; ship; write x tail; copy x x.1; write x longer longer; scan; truncate x; write x b`,
			`x: banner a tail b; x.1:`,
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
		"truncated and longer, with the same first bytes": {
			`write x banner a lines; ship; overwrite x banner b lines c; ship; write x more`, `x: banner a lines banner b lines c more`,
		},
		"the last bytes overwritten, and longer": {
			`write x banner a end; ship; overwrite x banner a new more`, `x: banner a end more`,
		},
		"room that is made in advance": {
			`write x banner a room; age x 9s; ship; overwrite x banner a b less; age x 8s; ship`,
			`x: banner a room banner a b less`,
		},
		"overwritten again and again": { // three wholes at once, then one in a minute
			`write x banner a lines; ship; overwrite x banner b lines b; ship; overwrite x banner c lines c c; ship
			overwrite x banner a lines a a a; ship; overwrite x banner b lines b b b b; ship; waits
			overwrite x banner c lines c c c c c; ship; lost; undone
			sleep 1m`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a banner c lines c c c c c`,
		},
		"replaced again and again": { // by files that are renamed, as documents are that are written beside the old one
			`write x banner a lines; ship; replace x banner b lines b; ship; replace x banner c lines c c; ship
			replace x banner a lines a a a; ship; replace x banner b lines b b b b; ship; waits
			replace x banner c lines c c c c c; ship; lost; undone
			sleep 1m`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a banner c lines c c c c c`,
		},
		"overwritten again and again until the end": {
			`write x banner a lines; ship; overwrite x banner b lines b; ship; overwrite x banner c lines c c; ship
			overwrite x banner a lines a a a; ship; overwrite x banner b lines b b b b; ship; drain`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a banner b lines b b b b`,
		},
		"replaced again and again until the end": {
			`write x banner a lines; ship; replace x banner b lines b; ship; replace x banner c lines c c; ship
			replace x banner a lines a a a; ship; replace x banner b lines b b b b; ship; waits
			replace x banner c lines c c c c c; drain; ship; lost`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a banner c lines c c c c c`,
		},
		"overwritten again and again, then rotated": { // in order
			`write x banner a lines; ship; overwrite x banner b lines b; ship; overwrite x banner c lines c c; ship
			overwrite x banner a lines a a a; ship; overwrite x banner b lines b b b b; ship
			rename x x.1; write x c; ship; settle`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a banner b lines b b b b c; x.1:`,
		},
		"truncated under a program that does not append": { // and so makes holes
			`write x banner banner banner banner; ship; copy x x.1; truncate x; goon x b; ship
			copy x x.2; truncate x; goon x c; ship; truncate x; goon x a; ship`,
			`x: banner banner banner banner b c a; x.1:; x.2:`,
		},
		"truncated under a program that does not append, and then writes little": {
			`write x banner banner banner banner; ship; truncate x; goon x b; scan; scan; write x c; scan; scan; ship
			write x a; scan; write x c; scan; scan; ship; lost`,
			`x: banner banner banner banner b c a c`,
		},
		"short, and truncated under a program that does not append": {
			`write x a; ship; truncate x; goon x b; scan; write x c; ship; lost`,
			`x: a b c`,
		},
		"grown before it was truncated under a program that does not append": {
			`write x banner banner banner banner; ship; write x a a; truncate x; goon x b; scan; write x c; scan
			scan; ship; lost`,
			`x: banner banner banner banner b c`,
		},
		"overwritten again and again, then removed": {
			`write x banner a lines; ship; overwrite x banner b lines b; ship; overwrite x banner c lines c c; ship
			overwrite x banner a lines a a a; ship; overwrite x banner b lines b b b b; ship
			remove x; scan; scan; lost banner b lines b b b b`,
			`x: banner a lines banner b lines b banner c lines c c banner a lines a a a`,
		},
		"truncated and as long, with the same first bytes": {
			`write x banner a lines; ship; overwrite x banner b lines; age x 5s; ship`, `x: banner a lines banner b lines`,
		},
		"overwritten in one tick of the file system's clock": {
			`write x banner a lines; age x 5s; scan; overwrite x banner b lines; age x 5s; sleep 1s; fails`, `x: banner b lines`,
		},
		"truncated and longer, with the same first bytes, before it is opened": {
			`write x banner a lines; ship; write x tail; scan; overwrite x banner b lines c c; sleep 1s; fails`,
			`x: banner a lines banner b lines c c`,
		},
		"state lost": {`write x a; ship; write x more; forget; restart`, `x: a more`},
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
		"what waits": {
			`waits; write x a; ship; waits; write x tail; rename x x.1; write x b; scan; waits tail b
			sleep 1m; ship; waits`,
			`x: a tail b`,
		},
		// What a new raylet wrote before all lines of the old one were stored counts as not stored, and is stored.
		"another node": {
			`write x a; write y.err; ship; second; scan; write x b; write z c; ship; restart; ship
			rename x x.1; write x c; ship; empty y.err`, `x: a; second/x: b c; second/z: c`,
		},
		"another node before all is stored": {
			`write x a; ship; write x tail; second; scan; write x b
			scan; flush; waits b; undone; again; ship; waits; done; enough`, `x: a tail; second/x: b`,
		},
		"another node before all is stored, at the end": {
			`write x a; ship; write x tail; second; scan; write x b; drain
			scan; flush; waits b; undone; again; ship; waits; done; enough`, `x: a tail; second/x: b`,
		},
		"another node before all is stored, and a rotation": {
			`write x a; ship; write x tail; second; scan; write x b; rename x x.1; write x c
			scan; flush; waits b; undone; again; ship; waits; done; enough`, `x: a tail; second/x: c b`,
		},
		"moved for the next container": { // without the state they are found by the folder that they are in
			`write x a; ship; write x tail; write y b; move; second; write x b; ship
			has x a tail; has second/x b; forget; restart`, `x: a tail; y: b; second/x: b`,
		},
		"moved for the next container while down": {
			`write x a; ship; write x tail; write y b; move; second; restart; write x b; ship
			has x a tail; has second/x b; forget; restart`, `x: a tail; y: b; second/x: b`,
		},
		// Between a scan and the upload a log is replaced by what must not be read, or read as that log.
		"link in its place":         {`write x a; scan; remove x; link /etc/hostname x; sleep 1s; fails; nothing`, `x:`},
		"FIFO in its place":         {`write x a; scan; remove x; fifo x; sleep 1s; fails; nothing`, `x:`},
		"another file in its place": {`write x a; scan; remove x; write x other; sleep 1s; fails; nothing`, `x: other`},
		"names that keys cannot spell": { // or that are what the key of another one would be
			"write a\x01 one; write a%01 two; write a%2501 three; write a\xff four; write a%FF five" +
				"; write a%2F%ff%zz% six",
			`a%01: one; a%2501: two; a%252501: three; a%FF: four; a%25FF: five; a%2F%ff%zz%: six`,
		},
		"names that JSON cannot hold": {
			"write a\xff a; write a\xfe b; ship; restart; write a\xff more; write a\xfe more; ship; restart" +
				"; rename a\xff ../a\xff; rename a\xfe ../a\xfe; write a\xff b b; write a\xfe c c",
			`a%FF: a more b b; a%FE: b more c c`,
		},
	})
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
		says.True(t, saves <= 8, "the state was saved %d times for %d logs", saves, many)
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
		says.Equal(t, saves, 1, "the state was saved")
		r.shipAll()
		for i := range many {
			r.want(fmt.Sprintf("worker-%d.out", i), first("old")+first("new"))
		}
	})
}

// TestTruncatedWhileShipped: a log is copied and truncated after its chunk was opened and before the store has read it.
// By then the log has as many new bytes: they are not stored in the place of the old ones.
func TestTruncatedWhileShipped(t *testing.T) {
	for name, test := range map[string]struct {
		copies bool
		begins string // both
	}{
		"with a copy": {copies: true}, "without": {}, "with the same first bytes": {begins: text("banner")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				old, fresh := test.begins+first("old")+strings.Repeat("an old line\n", 100),
					test.begins+first("new")+strings.Repeat("a new line\n", 1000)
				done := false
				r.store.Fault = func(string) storetest.Fault {
					if !done {
						done = true
						r.copyTruncate("x.out", "x.out-1")
						if !test.copies {
							r.remove("x.out-1")
						}
						r.write("x.out", fresh)
					}
					return storetest.None
				}
				r.write("x.out", old)
				r.scan()
				time.Sleep(time.Second)
				_, _, err := r.shipper.ShipOnce(t.Context())
				says.True(t, err != nil && len(r.store.Keys()) == 0, "%v, stored %v", err, r.store.Keys())
				r.shipAll()
				want := fresh
				if test.copies {
					want = old + fresh
				}
				r.want("x.out", want)
			})
		})
	}
}
