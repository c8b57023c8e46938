package rayversion

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		v     Version
		known bool
	}{
		"2.60.1": {Version{2, 60, 1}, true}, "2.60": {Version{2, 60, 0}, true}, "2.60.0rc1": {Version{2, 60, 0}, true},
		"3.0.0.dev0": {Version{3, 0, 0}, true}, "2.60.x": {Version{2, 60, 0}, true},
		"2.9.3-py310": {Version{2, 9, 3}, true},
		// an image's tag may be anything
		"7": {Version{7, 0, 0}, false}, "7.x": {Version{7, 0, 0}, false}, "": {}, "nightly": {},
		".60.1": {Version{0, 60, 1}, false}, "-2.60.1": {Version{0, 60, 1}, false}, "2.99999999999999999999.1": {Version{2, math.MaxInt, 1}, false},
	} {
		if v, known := Parse(text); v != want.v || known != want.known {
			t.Errorf("%q is %v, %v", text, v, known)
		}
	}
}

// TestBeforeAndSince: a version that is not known is neither before a release nor after it.
func TestBeforeAndSince(t *testing.T) {
	for text, want := range map[string]struct{ before, since bool }{
		"2.54.9": {true, false}, "2.55.0": {false, true}, "2.55.0rc1": {false, true}, "2.100.0": {false, true},
		"3.0.0.dev0": {false, true}, "1.13.0": {true, false}, "7": {}, "latest": {},
	} {
		release := Version{2, 55}
		if before, since := Before(text, release), Since(text, release); before != want.before || since != want.since {
			t.Errorf("%q: before %v, since %v", text, before, since)
		}
	}
}
