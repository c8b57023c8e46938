package param

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/settings"
)

// WantTime says which times Times reads.
const WantTime = "a date or a time such as 2026-11-20 23:20, 02:18, 10m ago or 2026-11-20T23:20:00Z, or Unix " +
	"milliseconds"

// Times read times as people type them. Zone is that of times without one, End what "10m ago" is before, and the latest
// that a time without a date can be. The zero value reads only times that need neither: RFC 3339 and Unix milliseconds.
type Times struct {
	Zone *time.Location
	End  time.Time
}

// maxTypedTime is how long a time is at most that is looked at, in bytes, and maxTypedSpan how long ago one may be: two
// of them can be added up.
const (
	maxTypedTime = 64
	maxTypedSpan = 100 * 365 * 24 * time.Hour
)

const dateForm = "2006-1-2"

var (
	zoneForms  = []string{"2006-1-2 15:4:5Z07:00", "2006-1-2 15:4Z07:00", "2006-1-2 15:4:5Z0700", "2006-1-2 15:4Z0700"}
	localForms = []string{"2006-1-2 15:4:5", "2006-1-2 15:4", dateForm}
	clockForms = []string{"15:4:5", "15:4"}

	spanForm = lazyregexp.New(`^(?:\d+ ?[a-z]+ ?)+$`)
	partForm = lazyregexp.New(`(\d+) ?([a-z]+)`)
	// units are those of times that are said as "10 min ago", by their names, of which a beginning is enough.
	units = []struct {
		name string
		unit time.Duration
	}{
		{"seconds", time.Second}, {"secs", time.Second}, {"minutes", time.Minute}, {"mins", time.Minute},
		{"hours", time.Hour}, {"hrs", time.Hour}, {"days", 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour},
	}
)

// Parse reads a time as people type it; ok is false if it cannot be read. A number is Unix milliseconds, a date its
// beginning, a time of day without a date the last such time before t.End, and "10m ago" and "10m" are 10 minutes
// before t.End. Without t.Zone only times that name their zone, and Unix milliseconds, can be read.
func (t Times) Parse(text string) (at time.Time, ok bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	if len(text) > maxTypedTime {
		return at, false
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms), ms > 0 && ms <= math.MaxInt64/int64(time.Millisecond)
	}
	spaced := strings.Replace(text, "T", " ", 1) // as ISO 8601 separates a date from a time
	if at, ok = parseForm(spaced, zoneForms, time.UTC); ok || t.Zone == nil {
		return at, ok
	}
	if at, ok = parseForm(spaced, localForms, t.Zone); ok {
		return at, true
	}
	if clock, ok := parseForm(text, clockForms, t.Zone); ok {
		return t.last(clock), true
	}
	ago, ok := Span(strings.TrimSpace(strings.TrimSuffix(strings.ToLower(text), "ago")))
	return t.End.Add(-ago), ok
}

// ParseEnd is as Parse, but a date is its end.
func (t Times) ParseEnd(text string) (at time.Time, ok bool) {
	at, ok = t.Parse(text)
	if _, err := time.Parse(dateForm, strings.TrimSpace(text)); err == nil {
		at = at.AddDate(0, 0, 1)
	}
	return at, ok
}

// nanos is what was parsed as Unix nanoseconds.
func nanos(at time.Time, ok bool) (int64, bool) {
	if !ok || !at.After(time.Unix(0, 0)) || at.After(time.Unix(0, math.MaxInt64)) {
		return 0, false
	}
	return at.UnixNano(), true
}

// Time reads a time as Unix nanoseconds.
func (f *Form) Time(name string, times Times) int64 { return f.nanos(name, times.Parse) }

// EndTime is as Time, but a date is its end.
func (f *Form) EndTime(name string, times Times) int64 { return f.nanos(name, times.ParseEnd) }

func (f *Form) nanos(name string, parse func(string) (time.Time, bool)) (ns int64) {
	f.Parse(name, func(text string) (ok bool) {
		ns, ok = nanos(parse(text))
		return ok
	}, WantTime)
	return ns
}

// ParseAt reads the moment at which a session is shown, before anything is known of the session, as Unix nanoseconds.
// The empty string is 0, the session's end.
func ParseAt(text string) (ns int64, err error) {
	if text == "" {
		return 0, nil
	}
	ns, ok := nanos(Times{}.Parse(text))
	if !ok {
		return 0, &Error{Name: "at", Value: text, Want: "a time in RFC 3339 (2026-11-20T23:20:00Z) or in Unix milliseconds"}
	}
	return ns, nil
}

// parseForm reads a time that has one of several forms.
func parseForm(text string, forms []string, zone *time.Location) (at time.Time, ok bool) {
	for _, form := range forms {
		if at, err := time.ParseInLocation(form, text, zone); err == nil {
			return at, true
		}
	}
	return at, false
}

// last is the last time before End at which a clock showed what another time's clock shows.
func (t Times) last(clock time.Time) time.Time {
	y, m, d := t.End.In(t.Zone).Date()
	at := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), t.Zone)
	if at.After(t.End) {
		at = at.AddDate(0, 0, -1)
	}
	return at
}

// Span reads a duration as flags have it ("1.5h") or in words: "90s", "1h 30 min", "2 days". A unit may be any
// beginning of its name in units; "m" is minutes. ok is false if the text cannot be read, and if the duration is
// negative or more than maxTypedSpan.
func Span(text string) (whole time.Duration, ok bool) {
	var flag settings.Duration
	if flag.Set(text) == nil {
		return time.Duration(flag), flag >= 0 && time.Duration(flag) <= maxTypedSpan
	}
	if !spanForm().MatchString(text) {
		return 0, false
	}
	for _, part := range partForm().FindAllStringSubmatch(text, -1) {
		number, beginning := part[1], part[2] // such as 2 and h
		n, err := strconv.Atoi(number)
		unit := time.Duration(0)
		for _, u := range units {
			if unit == 0 && strings.HasPrefix(u.name, beginning) {
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
