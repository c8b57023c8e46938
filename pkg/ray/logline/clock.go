package logline

import (
	"cmp"
	"time"
)

// Clock completes the times of lines, which often have no zone, no year or no date.
type Clock struct {
	Zone *time.Location // of times without one; nil is UTC
	// From and To are the first and the last moment at which lines can have been written, Unix ns; 0 if not known.
	// Where a line leaves out the year or the date, it is the one that lies in between.
	From, To int64
}

// Slack is how far outside of the clock's range a time may be (ns): clocks differ.
const Slack = int64(time.Hour)

// outside returns how far outside of the clock's range, with Slack around it, a time is (ns); 0 within it, and if no
// range is known.
func (c *Clock) outside(at int64) int64 {
	switch {
	case c.From == 0 && c.To == 0:
		return 0
	case c.From != 0 && at < c.From-Slack:
		return c.From - Slack - at
	case c.To != 0 && at > c.To+Slack:
		return at - c.To - Slack
	}
	return 0
}

// order says what the numbers of a date are.
type order int8

const (
	noDate              order = iota
	yearFirst                 // 2026-11-20, 26/11/20
	monthFirst                // 11/20/2026
	dayFirst                  // 20/11/2026
	twoDigits                 // two digits each, in the order that the clock makes likely; yearFirst if it makes none
	twoDigitsMonthFirst       // the same; monthFirst if it makes none
	monthOrDayFirst           // 11/20/2026 or 20/11/2026
	withoutYear               // 11-20
)

// moment is a time as a line has it.
type moment struct {
	order                      order
	date                       [3]int
	hour, minute, second, nano int
	hasZone                    bool
	east                       int // seconds east of UTC
	epoch                      int64
}

// unixNs returns the moment in Unix ns. ok is false if the numbers are no time, or the date is not known. Where the
// order of a date's numbers, or its year, is not certain, the clock's range decides.
func (m *moment) unixNs(clock *Clock) (ns int64, ok bool) {
	if m.epoch != 0 {
		return m.epoch, true
	}
	if m.hour > 23 || m.minute > 59 || m.second > 60 { // 60 is a leap second
		return 0, false
	}
	a, b, c := m.date[0], m.date[1], m.date[2] // onDate wants year, month and day
	switch m.order {
	case yearFirst:
		return m.onDate(clock, a, b, c)
	case monthFirst:
		return m.onDate(clock, c, a, b)
	case dayFirst:
		return m.onDate(clock, c, b, a)
	case twoDigits:
		return m.onLikeliestDate(clock, [][3]int{{a, b, c}, {c, a, b}, {c, b, a}})
	case twoDigitsMonthFirst:
		return m.onLikeliestDate(clock, [][3]int{{c, a, b}, {a, b, c}, {c, b, a}})
	case monthOrDayFirst:
		return m.onLikeliestDate(clock, [][3]int{{c, a, b}, {c, b, a}})
	case withoutYear:
		if clock.From == 0 && clock.To == 0 {
			return 0, false
		}
		year := time.Unix(0, cmp.Or(clock.From, clock.To)).UTC().Year()
		return m.onLikeliestDate(clock, [][3]int{{year, a, b}, {year + 1, a, b}, {year - 1, a, b}})
	}
	return m.onClockDay(clock)
}

// onClockDay returns when the time of day was within the clock's range, with Slack around it. ok is false if it was
// not, or if it may have been twice, because the range with its Slack is about a day long.
func (m *moment) onClockDay(clock *Clock) (ns int64, ok bool) {
	if clock.From == 0 || clock.To == 0 || clock.To-clock.From >= int64(24*time.Hour)-2*Slack {
		return 0, false
	}
	first := time.Unix(0, clock.From).In(clock.zoneOrUTC())
	for day := -1; day <= 2; day++ { // the range may begin the day before, and end in the days after
		on := first.AddDate(0, 0, day)
		if at, valid := m.onDate(clock, on.Year(), int(on.Month()), on.Day()); valid && clock.outside(at) == 0 {
			return at, true
		}
	}
	return 0, false
}

// onLikeliestDate returns the time of day on the one of several dates that is nearest to the clock's range, of several
// alike the first. A date is year, month and day; ok is false if none of them exists.
func (m *moment) onLikeliestDate(clock *Clock, days [][3]int) (ns int64, ok bool) {
	for _, d := range days {
		at, valid := m.onDate(clock, d[0], d[1], d[2])
		if valid && (!ok || clock.outside(at) < clock.outside(ns)) {
			ns, ok = at, true
		}
	}
	return ns, ok
}

// onDate returns the time of day on a date as Unix ns, in the time's own zone or else in the clock's. A year of two
// digits is in this century.
func (m *moment) onDate(clock *Clock, year, month, day int) (ns int64, ok bool) {
	if year < 100 {
		year += 2000
	}
	if year < 1971 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	zone := clock.zoneOrUTC()
	if m.hasZone {
		zone = time.UTC
	}
	t := time.Date(year, time.Month(month), day, m.hour, m.minute, m.second, m.nano, zone)
	return t.UnixNano() - int64(m.east)*int64(time.Second), true
}

func (c *Clock) zoneOrUTC() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}
