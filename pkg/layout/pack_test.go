package layout

import (
	"errors"
	"testing"
	"time"
)

func TestPackKeys(t *testing.T) {
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	key := PackKey("a/log", day, 7)
	if key != "a/log/index/packs/day=2026-11-20/000007.parquet" {
		t.Errorf("key %s", key)
	}
	if got, n, err := ParsePack("a/log", key); err != nil || n != 7 || !got.Equal(day) {
		t.Errorf("day %s, number %d, error %v", got, n, err)
	}
	for _, key := range []string{"", "log/index/packs/day=2026-11-20/0.parquet",
		"log/index/packs/day=2026-11-20/7.parquet", "log/index/packs/day=2026-11-20/-00001.parquet",
		"log/index/packs/day=2026-13-20/000001.parquet", "log/index/packs/2026-11-20/000001.parquet",
		"log/index/packs/day=2026-11-20/000001.parquet/x", "log/index/lab_default/000001.parquet"} {
		if _, _, err := ParsePack("log", key); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for name, want := range map[string]string{
		"session_2026-11-20_23-19-45_581717_22125": "2026-11-20", "session_x": "1970-01-01",
		"session_1066-10-14_09-00-00_0_1": "1970-01-01",
	} {
		if got := PackDay(Session{Name: name}).Format(time.DateOnly); got != want {
			t.Errorf("%s is packed with %s, want %s", name, got, want)
		}
	}
}
