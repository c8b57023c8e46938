package spool

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestDeletedFiles: a program that cleans /tmp deletes the folder of an open spool, or a part of it. What waited there is lost and counted;
// what is answered for from then on is not, even after a crash.
func TestDeletedFiles(t *testing.T) {
	for name, test := range map[string]struct {
		deleted string
		lost    float64 // segments, if they hold something
	}{
		"the folder":     {".", 1},
		"its contents":   {"*", 1},
		"the segments":   {"*" + segmentSuffix, 1},
		"the lock":       {"lock", 0},
		"the positions":  {positionsFile, 0},
		"the quarantine": {quarantineDir, 0},
	} {
		for _, waits := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "spool")
				opts := testOptions()
				opts.Remake = func() error { return os.MkdirAll(dir, 0o700) }
				s := reopen(t, dir, opts)
				b := newStore()
				mustAppend(t, s, line("a", 1))
				drain(t, s, b, 1<<20)
				if waits {
					mustAppend(t, s, line("a", 2), line("b", 2))
				}
				files, err := filepath.Glob(filepath.Join(dir, test.deleted))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if err := os.RemoveAll(f); err != nil {
						t.Fatal(err)
					}
				}
				kept := []string{line("a", 1)}
				want := test.lost
				if !waits {
					want = 0
				} else if want == 0 {
					kept = append(kept, line("a", 2), line("b", 2))
				}
				for i := 3; i < 6; i++ {
					for try := 0; s.Append(t.Context(), batchOf(line("a", i), line("b", i))) != nil; try++ {
						if try > 2 {
							t.Fatal("nothing is kept any more")
						}
					}
					kept = append(kept, line("a", i), line("b", i))
				}
				if _, err := Open(dir, testOptions()); err == nil {
					t.Error("the folder belongs to two")
				}
				if _, err := shipOne(s.stream("a"), b, 1<<20, map[string]bool{}, lost); err != nil && !errors.Is(err, errDamaged) {
					t.Error(err)
				}
				s.die()
				if n := count(s.metrics.damaged); n != want {
					t.Errorf("%v segments were lost, want %v", n, want)
				}
				s = reopen(t, dir, opts)
				drain(t, s, b, 1<<20)
				checkStored(t, b, kept, 1)
				b.checkGaps(t)
			})
		}
	}
}
