package layout

import (
	"errors"
	"testing"
	"time"
)

func TestRecentKeys(t *testing.T) {
	s := Session{Namespace: "default", Cluster: "a_b", Name: "session_2026-11-20_23-19-45_581717_22125"}
	key := RecentKey("log", s, time.Date(2026, 11, 20, 23, 19, 45, 0, time.UTC))
	if key != "log/recent/2026-11-20-23/a_b_default/session_2026-11-20_23-19-45_581717_22125" {
		t.Errorf("key %s", key)
	}
	if got, err := ParseRecent("log", key); err != nil || got != s {
		t.Errorf("%v, error %v", got, err)
	}
	start := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	further := RecentHeadKey("log", s, start)
	if got, err := ParseRecent("log", further); err != nil || got != s || further <= RecentHour("log", start) {
		t.Errorf("a further head's %s: %v, error %v", further, got, err)
	}
	for _, key := range []string{"", "log/recent/", "log/recent/2026-11-20-23",
		"log/recent/2026-11-20/lab_default/session_1", "log/recent/2026-11-20-23/lab_default/x",
		"log/metadir/lab_default/session_1", "log/recent/2026-11-20-23/a/b_default/session_1",
		"other/recent/2026-11-20-23/lab_default/session_1"} {
		if got, err := ParseRecent("log", key); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v, error %v", key, got, err)
		}
	}
}
