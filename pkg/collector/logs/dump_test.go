package logs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// A dump that is written again in place is stored once and whole: when it was left alone, or when nothing more will be
// written.
func TestDumps(t *testing.T) {
	for _, tc := range []struct {
		name string
		rest func(r *rig)
	}{
		{"collector ends", func(r *rig) { r.tailer.Drain() }},
		{"raylet is gone", func(r *rig) {
			old := time.Now().Add(-time.Hour)
			must.OK(t, os.Chtimes(r.path("debug_state.txt"), old, old))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for _, dump := range []string{"NodeManager: long first dump\n", "NodeManager: 2\n",
					"NodeManager: the last and longest of the dumps\n"} {
					must.OK(t, os.WriteFile(r.path("debug_state.txt"), []byte(dump), 0o644))
					r.shipAll()
				}
				if keys := r.store.Keys(); len(keys) != 0 {
					t.Fatalf("stored while it was written: %v", keys)
				}
				tc.rest(r)
				r.shipAll()
				if got := r.joined(nodeID, "debug_state.txt"); got != "NodeManager: the last and longest of the dumps\n" {
					t.Errorf("stored is %q", got)
				}
			})
		})
	}
}

// A dump that is overwritten in place after a scan looked at it, and before any of it is stored, is stored as it is
// then.
func TestDumpOverwrittenBeforeTheUpload(t *testing.T) {
	for name, dump := range map[string]string{"shorter": "NodeManager: 2\n",
		"longer": "GcsServer: 2, which is longer\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				write := func(dump string, at time.Time) {
					must.OK(t, errors.Join(os.WriteFile(r.path("debug_state.txt"), []byte(dump), 0o644),
						os.Chtimes(r.path("debug_state.txt"), at, at)))
				}
				write("NodeManager: the first dump\n", time.Now().Add(-time.Hour))
				r.scan()
				write(dump, time.Now())
				must.OK(t, r.shipper.Flush(t.Context()))
				r.scan()
				time.Sleep(3 * time.Minute)
				r.shipAll()
				if got := r.joined(nodeID, "debug_state.txt"); got != dump {
					t.Errorf("stored is %q", got)
				}
				if !isStored(t, r) {
					t.Error("something is not stored")
				}
			})
		})
	}
}

// A dump that waits while the store refuses everything is stored whole by the next collector, be it at rest then or
// not, and is not removed before.
func TestDumpsOverARestart(t *testing.T) {
	for _, writtenAgain := range []bool{false, true} {
		for _, withSize := range []bool{true, false} { // as collectors wrote the state before they noted a dump's size
			t.Run(fmt.Sprintf("written again %t, size noted %t", writtenAgain, withSize), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					const dump = "NodeManager: the last dump\n"
					old := time.Now().Add(-time.Hour)
					write := func(at time.Time) {
						must.OK(t, errors.Join(os.WriteFile(r.path("debug_state.txt"), []byte(dump), 0o644),
							os.Chtimes(r.path("debug_state.txt"), at, at)))
					}
					write(old)
					r.store.Fault = func(string) storetest.Fault { return storetest.Refuse }
					r.scan()
					if !withSize {
						state := filepath.Join(r.state, session+".json")
						data := must.Get(os.ReadFile(state))(t)
						must.OK(t, os.WriteFile(state, regexp.MustCompile(`,"size":\d+`).ReplaceAll(data, nil), 0o600))
					}
					if writtenAgain {
						write(time.Now())
					}
					r.deleteShipped = true
					r.restart()
					for range 3 {
						r.scan()
						if _, err := os.Stat(r.path("debug_state.txt")); err != nil {
							t.Fatal("removed before it was stored")
						}
						sessions, _, err := r.tailer.Sessions()
						if err != nil || len(sessions) != 1 || sessions[0].Stored {
							t.Errorf("sessions %+v, %v", sessions, err)
						}
					}
					r.store.Fault = nil
					time.Sleep(3 * time.Minute)
					r.shipAll()
					if got := r.joined(nodeID, "debug_state.txt"); got != dump {
						t.Errorf("stored is %q in %v", got, r.store.Keys())
					}
				})
			})
		}
	}
}
