package web

import (
	"fmt"
	"strconv"
	"time"
)

// formatBytes writes a size in units of 1024 with about three digits: 17 B, 4.25 KiB, 1.21 GiB.
func formatBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), -1
	for v >= 1023.5 && unit < 4 {
		v /= 1024
		unit++
	}
	digits := 2
	if v >= 99.5 {
		digits = 0
	} else if v >= 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// formatCount writes a number with its thousands apart: 12,345.
func formatCount(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes the word for n things.
func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// formatDuration writes a duration in its two largest units, as the Ray Dashboard does: 45s, 3m 12s, 5h 2m, 3d 4h.
func formatDuration(d time.Duration) string {
	seconds := int64(d.Round(time.Second) / time.Second)
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm %ds", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%dh %dm", seconds/3600, seconds%3600/60)
	}
	return fmt.Sprintf("%dd %dh", seconds/86400, seconds%86400/3600)
}

// percent is done of total, 0 to 100; 0 while the total is not known.
func percent(done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return min(100, done*100/total)
}
