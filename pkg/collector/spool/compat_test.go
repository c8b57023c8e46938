package spool

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEarlierVersion: a spool that an earlier version left is shipped completely, and nothing of it twice. The collector that wrote
// testdata/v1 was killed after it had shipped parts of three streams (testdata/v1/store) and lost the answers to the last of these
// uploads; a fourth stream kept its segments.
func TestEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1", "spool"))); err != nil {
		t.Fatal(err)
	}
	b, err := readFolder(filepath.Join("testdata", "v1", "store"))
	if err != nil {
		t.Fatal(err)
	}
	s := reopen(t, dir, testOptions())
	drain(t, s, b, 1<<20)
	var want []string
	for i := range 12 {
		want = append(want, line("a", i), line(string(rune('b'+i%3)), i))
	}
	checkStored(t, b, want, 1)
	if n := count(s.metrics.rebased) + count(s.metrics.damaged) + count(s.metrics.torn) + count(s.metrics.foreign); n != 0 {
		t.Errorf("%v times something was not as expected", n)
	}
	if left := segments(t, dir); len(left) > 0 {
		t.Errorf("segments are left: %v", left)
	}
}
