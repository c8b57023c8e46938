package param

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestParseAt(t *testing.T) {
	want := time.Date(2026, 11, 20, 23, 20, 0, 500_000_000, time.UTC).UnixNano()
	for _, s := range []string{"2026-11-20T23:20:00.5Z", "2026-11-21T00:20:00.5+01:00", "1795216800500"} {
		says.Equal(t, must.Get(ParseAt(s))(t), want, "ParseAt(%s)", s)
	}
	says.Equal(t, must.Get(ParseAt(""))(t), 0, "the end")
	for _, s := range []string{"now", "-5", "0", "99999999999999999", "2026-11-20", "02:18", "10m ago",
		"1960-01-01T00:00:00Z", "9999-01-01T00:00:00Z"} {
		at, err := ParseAt(s)
		says.True(t, err != nil, "ParseAt(%s) = %d, want an error", s, at)
	}
}

// TestTimes: times as people type them are times of the session; what is none is refused.
func TestTimes(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	of := Times{Zone: zone, End: time.Date(2026, 11, 20, 3, 0, 0, 0, zone)}
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
		"2026-11-20T01:00Z":               "2026-11-20T03:00:00+02:00",
		"2026-11-20T01:00:07.5+0000":      "2026-11-20T03:00:07.5+02:00", // as many logs have it
		"2026-11-20 01:00-0130":           "2026-11-20T04:30:00+02:00",
		"2026-11-19":                      "2026-11-19T00:00:00+02:00",
		"24h":                             "2026-11-19T03:00:00+02:00",
		"1.5h":                            "2026-11-20T01:30:00+02:00",
		"1w":                              "2026-11-13T03:00:00+02:00",
		"1 week ago":                      "2026-11-13T03:00:00+02:00",
		"7d ago":                          "2026-11-13T03:00:00+02:00",
		"-24h":                            "none",
		"1000000h":                        "none",
		"1795136400000":                   "2026-11-20T03:00:00+02:00",
		"lunch":                           "none",
		"25:00":                           "none",
		"10 parsecs ago":                  "none",
		"99999999999999999 s ago":         "none",
		"36500d 36500d 36500d ago":        "none",
		"ago":                             "none",
		"0900-01-01":                      "none",
		strings.Repeat("1s ", 50) + "ago": "none",
	} {
		form := &Form{Values: url.Values{"time": {text}}}
		at, got := form.Time("time", of), "none"
		if form.Err == nil {
			got = time.Unix(0, at).In(zone).Format(time.RFC3339Nano)
		}
		if form.Err == nil && at == 0 {
			got = ""
		}
		says.Equal(t, got, want, "%q", text)
	}
}

// TestTimesEnd: a date is its end, whatever the zone; other times are as they are.
func TestTimesEnd(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	of := Times{Zone: zone, End: time.Date(2026, 11, 20, 3, 0, 0, 0, zone)}
	for text, want := range map[string]string{
		"2026-11-19":       "2026-11-20T00:00:00+02:00",
		"9999-12-30":       "9999-12-31T00:00:00+02:00",
		"2026-11-19 00:00": "2026-11-19T00:00:00+02:00",
		"1d":               "2026-11-19T03:00:00+02:00",
	} {
		if at, ok := of.ParseEnd(text); !ok || at.Format(time.RFC3339) != want {
			t.Errorf("%q ends at %s, want %s", text, at.Format(time.RFC3339), want)
		}
	}
	at, ok := of.ParseEnd("2026-11-31")
	says.True(t, !ok, "a day that there is not is %s", at)
}
