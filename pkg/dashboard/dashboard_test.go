package dashboard

import (
	"testing"
	"time"
)

func TestParseAt(t *testing.T) {
	want := time.Date(2026, 11, 20, 23, 20, 0, 500_000_000, time.UTC).UnixNano()
	for _, s := range []string{"2026-11-20T23:20:00.5Z", "2026-11-21T00:20:00.5+01:00", "1795216800500"} {
		if at, err := ParseAt(s); err != nil || at != want {
			t.Errorf("ParseAt(%s) = %d, %v, want %d", s, at, err, want)
		}
	}
	if at, err := ParseAt(""); err != nil || at != 0 {
		t.Errorf("the end is %d, %v", at, err)
	}
	for _, s := range []string{"now", "-5", "0", "99999999999999999", "2026-11-20", "1960-01-01T00:00:00Z",
		"9999-01-01T00:00:00Z"} {
		if at, err := ParseAt(s); err == nil {
			t.Errorf("ParseAt(%s) = %d, want an error", s, at)
		}
	}
}
