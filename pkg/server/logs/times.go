package logs

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard"
)

// times say what people mean by a time without a date, a zone or both: one of a session's, as its logs write it.
type times struct {
	zone *time.Location
	to   time.Time // the session's end or the moment shown
}

// timesOf are the times of a session.
func (h *Handlers) timesOf(ctx context.Context, of Session) (times, error) {
	clock, err := h.opts.Dashboard.Clock(ctx, of.Session)
	t := times{zone: clock.Zone, to: time.Unix(0, clock.To)}
	if of.At != 0 {
		t.to = time.Unix(0, of.At)
	}
	if t.zone == nil {
		t.zone = time.UTC
	}
	return t, err
}

// maxTime is how long a time is at most that is looked at, in bytes.
const maxTime = 64

var (
	agoForm  = regexp.MustCompile(`^((?:\d+ ?[a-z]+ ?)+) ?ago$`)
	partForm = regexp.MustCompile(`(\d+) ?([a-z]+)`)
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

// parse reads a time as people type it, as Unix nanoseconds; "" is 0. A time of day is the last such time before the
// session's end, "10m ago" is 10 minutes before it.
func (t times) parse(text string) (at int64, ok bool) {
	if at, err := dashboard.ParseAt(text); err == nil {
		return at, true
	}
	text = strings.ToLower(strings.TrimSpace(text))
	if len(text) > maxTime {
		return 0, false
	}
	if ago := agoForm.FindStringSubmatch(text); ago != nil {
		before, ok := span(ago[1])
		return t.to.Add(-before).UnixNano(), ok
	}
	text = strings.ToUpper(strings.Replace(text, ",", ".", 1)) // Python's logging writes 23:20:00,123
	for _, form := range fullForms {
		if at, err := time.ParseInLocation(form, text, t.zone); err == nil {
			return at.UnixNano(), at.Year() > 1970 && at.Year() < 2200
		}
	}
	for _, form := range clockForms {
		of, err := time.ParseInLocation(form, text, t.zone)
		if err != nil {
			continue
		}
		y, m, d := t.to.In(t.zone).Date()
		at := time.Date(y, m, d, of.Hour(), of.Minute(), of.Second(), of.Nanosecond(), t.zone)
		if at.After(t.to) {
			at = at.AddDate(0, 0, -1)
		}
		return at.UnixNano(), true
	}
	return 0, false
}

// span reads how long something is: "90s", "1h 30 min", "2 days".
func span(text string) (whole time.Duration, ok bool) {
	for _, part := range partForm.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(part[1])
		unit := time.Duration(0)
		for _, u := range units {
			if unit == 0 && strings.HasPrefix(u.names, part[2]) {
				unit = u.unit
			}
		}
		if err != nil || unit == 0 || n > int(100*365*24*time.Hour/unit) {
			return 0, false
		}
		whole += time.Duration(n) * unit
	}
	return whole, whole <= 100*365*24*time.Hour
}
