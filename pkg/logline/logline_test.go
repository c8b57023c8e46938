package logline

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const want = "2026-11-20T23:19:45.581Z"
	for line, level := range map[string]Level{
		"[2026-11-20 23:19:45,581 I 123 456] (raylet) main.cc:1: started": Info,
		"[2026-11-20 23:19:45,581 C 1 1] x":                               Fatal,
		"2026-11-20 23:19:45,581\tWARNING head.py:1 -- x":                 Warning,
		"2026-11-20 23:19:45,581 - ERROR - x":                             Error,
		"2026-11-20T23:19:45.581000000 no level":                          Unknown,
		"DEBUG 2026-11-20 23:19:45,581 controller 1 -- x":                 Debug,
		`{"asctime": "2026-11-20 23:19:45,581", "levelname": "INFO"}`:     Info,
		`{"levelname":"ERROR","timestamp_ns": 1795216785581000000}`:       Error,
	} {
		h, ok := Parse([]byte(line), time.UTC)
		if got := time.Unix(0, h.Time).UTC().Format(time.RFC3339Nano); !ok || got != want || h.Level != level {
			t.Errorf("%s: %s %v %t, want %s %v", line, got, h.Level, ok, want, level)
		}
	}
	h, _ := Parse([]byte("2026-11-21 01:19:45"), time.FixedZone("", 2*3600))
	if got := time.Unix(0, h.Time).UTC().Format(time.RFC3339Nano); got != "2026-11-20T23:19:45Z" {
		t.Errorf("in another zone: %s", got)
	}
	for _, line := range []string{
		"", "[", "INFO", "INFO ", "x 2026-11-20 23:19:45", "2026-13-20 23:19:45", "2026-11-20 24:19:45", "[1.5 I", `{"asctime": 3}`, "ABC 2026-11-20 23:19:45",
	} {
		if h, ok := Parse([]byte(line), time.UTC); ok {
			t.Errorf("%q is of %v", line, h)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for level := Unknown; level <= Fatal; level++ {
		if got, err := ParseLevel(strings.ToUpper(level.String())); got != level || err != nil {
			t.Errorf("%v: %v, %v", level, got, err)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("loud is a level")
	}
}

// FuzzParse: whatever a line holds, it is read or not, and what follows its first bytes does not matter.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"[2026-11-20 23:19:45,581 I 1 1]", "INFO 2026-11-20 23:19:45,", `{"timestamp_ns": 1795216785581000000}`, `{"asctime": "2026`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		h, ok := Parse([]byte(line), time.UTC)
		if h.Level < Unknown || h.Level > Fatal {
			t.Errorf("level %d", h.Level)
		}
		if len(line) >= MaxHeader {
			if again, same := Parse([]byte(line+"x"), time.UTC); again != h || same != ok {
				t.Errorf("%v %t, then %v %t", h, ok, again, same)
			}
		}
	})
}
