package dashboard

import (
	"strings"
	"testing"
	"time"
)

// TestTypedTimes: times as people type them are times of the session; what is none is refused.
func TestTypedTimes(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	of := TypedTimes{Zone: zone, End: time.Date(2026, 11, 20, 3, 0, 0, 0, zone)}
	for text, want := range map[string]string{
		"":                                "",
		"02:18":                           "2026-11-20T02:18:00+02:00",
		"2:18":                            "2026-11-20T02:18:00+02:00",
		"03:00":                           "2026-11-20T03:00:00+02:00",
		"23:20:05":                        "2026-11-19T23:20:05+02:00",
		"23:20:05,250":                    "2026-11-19T23:20:05.25+02:00",
		"10m ago":                         "2026-11-20T02:50:00+02:00",
		" 10 min ago":                     "2026-11-20T02:50:00+02:00",
		"1h30m ago":                       "2026-11-20T01:30:00+02:00",
		"1 hour 30 minutes ago":           "2026-11-20T01:30:00+02:00",
		"2 days ago":                      "2026-11-18T03:00:00+02:00",
		"2026-11-20 01:00":                "2026-11-20T01:00:00+02:00",
		"2026-11-20T01:00:07":             "2026-11-20T01:00:07+02:00",
		"2026-11-20 01:00:07Z":            "2026-11-20T03:00:07+02:00",
		"2026-11-20T01:00:07.5Z":          "2026-11-20T03:00:07.5+02:00",
		"2026-11-19":                      "2026-11-19T00:00:00+02:00",
		"1795136400000":                   "2026-11-20T03:00:00+02:00",
		"lunch":                           "none",
		"25:00":                           "none",
		"10 parsecs ago":                  "none",
		"99999999999999999 s ago":         "none",
		"ago":                             "none",
		"0900-01-01":                      "none",
		strings.Repeat("1s ", 50) + "ago": "none",
	} {
		at, ok := of.Parse(text)
		got := "none"
		if ok {
			got = time.Unix(0, at).In(zone).Format(time.RFC3339Nano)
		}
		if ok && at == 0 {
			got = ""
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
