package spool

import (
	"strings"
	"testing"
	"time"
)

// TestClockThatIsSet: lines are due by the time that they waited, not by a clock that is set back meanwhile.
func TestClockThatIsSet(t *testing.T) {
	dir := t.TempDir()
	check := func(s *Spool) {
		t.Helper()
		_, oldest := s.Waiting()
		_, _, pending := s.Streams()[0].Pending(1 << 20)
		for _, arrived := range []time.Time{oldest, pending} {
			if ahead := time.Until(arrived); ahead > 0 {
				t.Errorf("lines arrived in %v", ahead)
			}
			if !strings.Contains(arrived.String(), " m=") {
				t.Errorf("%v has no monotonic reading, so the clock decides how long ago that is", arrived)
			}
		}
	}
	s := reopen(t, dir, testOptions())
	mustAppend(t, s, line("b", 1))
	check(s)
	for _, st := range s.Streams() { // stored
		if err := st.Resume(0); err != nil {
			t.Fatal(err)
		}
		st.Shipped(1 << 20)
	}
	ahead := &plan{}
	if err := ahead.split([]Lines{{Stream: "a", Data: []byte(line("a", 2))}}); err != nil {
		t.Fatal(err)
	}
	if err := s.assign(ahead.blocks); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writeRecord(ahead.blocks, time.Now().Add(24*time.Hour).UnixNano()); err != nil { // as by a clock that is a day ahead
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, dir, testOptions()) // the clock is right again
	check(s)
	mustAppend(t, s, line("b", 3))
	check(s)
}
