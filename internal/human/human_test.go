package human

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 10239: "10.0 KiB",
		1 << 20: "1.00 MiB", 1<<20 - 1: "1.00 MiB", 156 << 20: "156 MiB", 3 << 30: "3.00 GiB", 5 << 50: "5.00 PiB"} {
		says.Equal(t, Bytes(n), want, "%d bytes", n)
	}
}

func TestCut(t *testing.T) {
	for most, want := range map[int]string{0: "…", 1: "…", 3: "lä…", 4: "läng"} {
		says.Equal(t, Cut("läng", most), want, "%d characters", most)
	}
}

func TestFirstBytes(t *testing.T) {
	for most, want := range map[int]string{0: "", 1: "l", 2: "l", 3: "lä", 6: "läng", 9: "läng"} {
		says.Equal(t, FirstBytes("läng\xff", most), want, "%d bytes", most)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 59600 * time.Millisecond: "1m 0s", 45 * time.Second: "45s",
		3*time.Hour + 5*time.Minute: "3h 5m", 50 * time.Hour: "2d 2h"} {
		says.Equal(t, Duration(d), want, "%d ns", d)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{-time.Hour: "just now", 59 * time.Second: "just now",
		90 * time.Second: "1m ago", 23*time.Hour + 59*time.Minute: "23h ago", 24 * time.Hour: "1d ago", 49 * time.Hour: "2d ago",
		30 * 24 * time.Hour: "2026-10-28"} {
		says.Equal(t, Ago(now.Add(-ago), now), want, "%s before", ago)
	}
	says.Equal(t, Ago(time.Time{}, now), "-", "no time")
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 0.0123: "12.3 ms", 0.9996: "1 s", 1.254: "1.25 s",
		-34.51: "-34.5 s", 192: "3m 12s", -192: "-3m 12s", 0.0000015: "0.0015 ms"} {
		says.Equal(t, Seconds(s), want, "%v s", s)
	}
}

func TestOr(t *testing.T) {
	for want, values := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"},
		"a, b or c": {"a", "b", "c"}} {
		says.Equal(t, Or(values), want, "%q", values)
	}
}

func TestChange(t *testing.T) {
	for _, tc := range []struct {
		now, before float64
		want        string
	}{{112, 100, "+12 %"}, {50, 100, "−50 %"}, {7, 7, "+0 %"}, {7, 0, ""}, {0, 4, "−100 %"}, {1, math.NaN(), ""}} {
		says.Equal(t, Change(tc.now, tc.before), tc.want, "%v after %v", tc.now, tc.before)
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"lab", "nightly-train", "s3Bucket", "", strings.Repeat("x", maxSuggested+1)}
	for typed, want := range map[string]string{
		"lba": "lab", "LAB2": "lab", "la": "lab", "s3bucket": "s3Bucket", "nigthly_trian": "nightly-train", "b": "",
		"": "", "bal": "", "nightly": "", "ab": "lab", strings.Repeat("x", maxSuggested+1): "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		says.Equal(t, Suggest(typed, names), want, "%.20q", typed)
	}
}
