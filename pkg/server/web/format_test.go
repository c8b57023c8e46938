package web

import (
	"slices"
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 10239: "10.0 KiB", 1 << 20: "1.00 MiB", 1<<20 - 1: "1.00 MiB", 156 << 20: "156 MiB", 3 << 30: "3.00 GiB", 5 << 50: "5.00 PiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := formatCount(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 59600 * time.Millisecond: "1m 0s", 45 * time.Second: "45s", 3*time.Hour + 5*time.Minute: "3h 5m", 50 * time.Hour: "2d 2h"} {
		if got := formatDuration(d); got != want {
			t.Errorf("%d ns are %s, want %s", d, got, want)
		}
	}
	if percent(1, 0) != 0 || percent(1, 4) != 25 || percent(9, 4) != 100 {
		t.Error("percent")
	}
}

func TestPager(t *testing.T) {
	for _, tc := range []struct {
		p    Pager
		want []int
		prev int
		next int
	}{
		{Pager{Page: 1, Pages: 1}, []int{1}, 0, 0},
		{Pager{Page: 1, Pages: 9}, []int{1, 2, 3, 0, 9}, 0, 2},
		{Pager{Page: 5, Pages: 9}, []int{1, 0, 3, 4, 5, 6, 7, 0, 9}, 4, 6},
		{Pager{Page: 9, Pages: 9}, []int{1, 0, 7, 8, 9}, 8, 0},
	} {
		if got := tc.p.Around(); !slices.Equal(got, tc.want) || tc.p.Previous() != tc.prev || tc.p.Next() != tc.next {
			t.Errorf("%+v: %v, %d, %d", tc.p, got, tc.p.Previous(), tc.p.Next())
		}
	}
}
