package logs_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A dump that is written anew in place is stored once and whole: when it was left alone, or when nothing more will be written.
func TestDumps(t *testing.T) {
	for _, tc := range []struct {
		name string
		rest func(r *rig)
	}{
		{"collector ends", func(r *rig) { r.tailer.Drain() }},
		{"raylet is gone", func(r *rig) {
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(r.path("debug_state.txt"), old, old); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for _, dump := range []string{"NodeManager: long first dump\n", "NodeManager: 2\n", "NodeManager: the last and longest of the dumps\n"} {
					if err := os.WriteFile(r.path("debug_state.txt"), []byte(dump), 0o644); err != nil {
						t.Fatal(err)
					}
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
