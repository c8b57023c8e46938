package spool

import (
	"strings"
	"syscall"
	"testing"
)

// TestCompactionEnds: blocks of which most is shipped are moved whole. Their copies, which are no smaller, are not moved again without end.
func TestCompactionEnds(t *testing.T) {
	opts := testOptions()
	disk := newFaultyDisk()
	opts.disk, opts.segmentBytes, opts.MaxBytes = disk, 1, 8_000
	s := reopen(t, t.TempDir(), opts)
	lines := func(stream string) []Lines {
		return []Lines{{stream, []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 10))}}
	}
	for _, stream := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := s.Append(t.Context(), lines(stream)); err != nil {
			t.Fatal(err)
		}
	}
	segments := 0
	disk.setFail(func(operation string) error {
		if operation != "create" {
			return nil
		}
		if segments++; segments > 100 {
			return syscall.EIO // or the test would not end
		}
		return nil
	})
	b, known := newStore(), map[string]bool{}
	for range 8 {
		for _, stream := range []string{"a", "b"} {
			if _, err := shipOne(s.stream(stream), b, 100, known, kept); err != nil {
				t.Fatal(err)
			}
		}
	}
	if segments > 2 {
		t.Errorf("%d segments were written", segments)
	}
}
