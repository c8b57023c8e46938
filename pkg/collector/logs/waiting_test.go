package logs_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: what waits behind a rotation is told too.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		check := func(when string, want int, wantTime bool) {
			t.Helper()
			if n, oldest := r.tailer.Waiting(); n != int64(want) || oldest.IsZero() == wantTime {
				t.Errorf("%s: %d bytes wait since %v, want %d", when, n, oldest, want)
			}
		}
		check("at first", 0, false)
		r.write("x.out", first("a"))
		r.shipAll()
		check("all is stored", 0, false)
		r.write("x.out", "tail\n")
		r.rename("x.out", "x.out.1")
		r.write("x.out", first("b"))
		r.scan()
		check("rotated", len("tail\n"+first("b")), true)
		time.Sleep(time.Minute)
		r.shipAll()
		check("all is stored again", 0, false)
	})
}
