package dashboard

import (
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// TypedTimes say what people mean by a time without a date, a zone or both: one of a session's, as its logs write it.
type TypedTimes struct {
	Zone *time.Location
	End  time.Time // of the session, or the moment shown
}

// maxTypedTime is how long a time is at most that is looked at, in bytes, and maxTypedSpan how long ago one may be: two
// of them can be added up.
const (
	maxTypedTime = 64
	maxTypedSpan = 100 * 365 * 24 * time.Hour
)

var (
	typedAgo = lazyregexp.New(`^((?:\d+ ?[a-z]+ ?)+) ?ago$`)
	partForm = lazyregexp.New(`(\d+) ?([a-z]+)`)
	// units are those of times that are said as "10 min ago", by their beginnings.
	units = []struct {
		names string
		unit  time.Duration
	}{
		{"seconds", time.Second}, {"secs", time.Second}, {"minutes", time.Minute}, {"mins", time.Minute},
		{"hours", time.Hour}, {"hrs", time.Hour}, {"days", 24 * time.Hour},
	}
	// fullForms have a date; those without a zone are in the session's.
	fullForms = []string{"2006-1-2T15:4:5Z07:00", "2006-1-2 15:4:5Z07:00", "2006-1-2 15:4Z07:00", "2006-1-2T15:4:5",
		"2006-1-2T15:4", "2006-1-2 15:4:5", "2006-1-2 15:4", "2006-1-2"}
	clockForms = []string{"15:4:5", "15:4"}
)

// Parse reads a time as people type it, as Unix nanoseconds; "" is 0. A time of day is the last such time before the
// session's end, "10m ago" is 10 minutes before it.
func (t TypedTimes) Parse(text string) (at int64, ok bool) {
	if at, err := ParseAt(text); err == nil {
		return at, true
	}
	text = strings.ToLower(strings.TrimSpace(text))
	if len(text) > maxTypedTime {
		return 0, false
	}
	if ago := typedAgo().FindStringSubmatch(text); ago != nil {
		before, ok := typedSpan(ago[1])
		return t.End.Add(-before).UnixNano(), ok
	}
	text = strings.ToUpper(strings.Replace(text, ",", ".", 1)) // Python's logging writes 23:20:00,123
	for _, form := range fullForms {
		if at, err := time.ParseInLocation(form, text, t.Zone); err == nil {
			return at.UnixNano(), at.Year() > 1970 && at.Year() < 2200
		}
	}
	for _, form := range clockForms {
		clock, err := time.ParseInLocation(form, text, t.Zone)
		if err != nil {
			continue
		}
		y, m, d := t.End.In(t.Zone).Date()
		at := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), t.Zone)
		if at.After(t.End) {
			at = at.AddDate(0, 0, -1)
		}
		return at.UnixNano(), true
	}
	return 0, false
}

// typedSpan reads how long something is: "90s", "1h 30 min", "2 days".
func typedSpan(text string) (whole time.Duration, ok bool) {
	for _, part := range partForm().FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(part[1])
		unit := time.Duration(0)
		for _, u := range units {
			if unit == 0 && strings.HasPrefix(u.names, part[2]) {
				unit = u.unit
			}
		}
		if err != nil || unit == 0 || n > int(maxTypedSpan/unit) {
			return 0, false
		}
		if whole += time.Duration(n) * unit; whole > maxTypedSpan {
			return 0, false
		}
	}
	return whole, true
}
