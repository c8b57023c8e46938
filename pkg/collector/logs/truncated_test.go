package logs_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

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
		if err := os.Rename(r.path("x.out.1"), away); err != nil {
			t.Fatal(err)
		}
		r.scan()
		for range 3 {
			time.Sleep(time.Second)
			if _, _, err := r.shipper.ShipOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(away, r.path("x.out.1")); err != nil {
			t.Fatal(err)
		}
		r.shipAll()
		r.want("x.out", first("old")+first("new"))
	})
}
