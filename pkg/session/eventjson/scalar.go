package eventjson

import (
	"math"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// wholeFloat reads a whole number that is spelled with a point or an exponent, cut to int64; 0 if it is none.
func wholeFloat(s []byte, neg bool) int64 {
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	if neg {
		f = -f
	}
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// finite reads a number for JSON, which lacks infinities and NaN: these, and what is no number, are 0.
func finite[T string | []byte](s T) float64 {
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}

// parseTime reads a timestamp of protobuf's JSON, RFC 3339, as Unix nanoseconds. Years that int64 nanoseconds cannot
// hold, or that no clock of a cluster shows, are refused.
func parseTime(s []byte) (ns int64, ok bool) {
	if ns, ok = parseUTC(s); ok {
		return ns, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || t.Year() < firstYear || t.Year() > lastYear {
		return 0, false
	}
	return t.UnixNano(), true
}

const firstYear, lastYear = 1970, 2261

// parseUTC reads the form that Ray writes, 2026-11-20T23:19:48.917345350Z, with up to nine digits of a second or none;
// other forms are not ok.
func parseUTC(s []byte) (ns int64, ok bool) {
	const whole = len("2026-11-20T23:19:48")
	if len(s) <= whole || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' ||
		s[len(s)-1] != 'Z' {
		return 0, false
	}
	year, month, day := digits(s[0:4]), digits(s[5:7]), digits(s[8:10])
	hour, minute, second := digits(s[11:13]), digits(s[14:16]), digits(s[17:19])
	nanos := nanosOf(s[whole : len(s)-1])
	if !(between(year, firstYear, lastYear) && between(month, 1, 12) && between(day, 1, 31) &&
		between(hour, 0, 23) && between(minute, 0, 59) && between(second, 0, 60) && nanos >= 0) {
		return 0, false
	}
	return ((unixDay(year, month, day)*24+int64(hour))*60+int64(minute))*60*1e9 + int64(second)*1e9 + int64(nanos), true
}

func between(n, least, most int) bool { return n >= least && n <= most }

// nanosOf reads the fraction of a second, a point and up to nine digits or nothing; negative if it is anything else.
func nanosOf(fraction []byte) int {
	if len(fraction) == 0 {
		return 0
	}
	if len(fraction) == 1 || len(fraction) > 10 || fraction[0] != '.' {
		return -1
	}
	nanos := digits(fraction[1:])
	for range 10 - len(fraction) {
		nanos *= 10
	}
	return nanos
}

// digits reads a short number; negative if there is anything else in s.
func digits(s []byte) int {
	n := 0
	for _, ch := range s {
		if ch < '0' || ch > '9' {
			return -1
		}
		n = n*10 + int(ch-'0')
	}
	return n
}

// unixDay counts the days from 1970-01-01, by the proleptic Gregorian calendar with years that begin in March.
func unixDay(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400
	ofEra := year - era*400
	ofYear := (153*(month-3)+2)/5 + day - 1
	// 400 years have 146097 days, and 719468 days lie between 0000-03-01 and 1970-01-01.
	return int64(era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719468)
}

// idOf reads an identifier as base64 or hex; the zero value if there is none or it is malformed.
func idOf[T rayid.ID](raw []byte) (id T) {
	if len(raw) > 0 {
		var err error
		if id, err = rayid.ParseBytes[T](raw); err != nil {
			id, _ = rayid.ParseBytes[T](unquote(raw, nil)) // base64 has a slash, which may be escaped
		}
	}
	return id
}

// sixBits maps base64's letters to their values, 64 for all others.
var sixBits = func() (t [256]byte) {
	for i := range t {
		t[i] = 64
	}
	for i, ch := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[ch] = byte(i)
	}
	return t
}()

// taskIDOf reads a task ID: 32 letters of base64, or hex. It is fast because task IDs differ from event to event, so
// unlike other IDs they are not looked up by their text (internID).
func taskIDOf(raw []byte) (id rayid.Task, ok bool) {
	if len(raw) == 4*rayid.TaskSize/3 {
		for i, j := 0, 0; i < len(raw); i, j = i+4, j+3 {
			a, b, c, d := sixBits[raw[i]], sixBits[raw[i+1]], sixBits[raw[i+2]], sixBits[raw[i+3]]
			if (a|b|c|d)&64 != 0 {
				return rayid.Task{}, false // nor is it hex, which has 48 digits
			}
			id[j], id[j+1], id[j+2] = a<<2|b>>4, b<<4|c>>2, c<<6|d
		}
		return id, true
	}
	id, err := rayid.ParseBytes[rayid.Task](unquote(raw, nil))
	return id, err == nil
}
