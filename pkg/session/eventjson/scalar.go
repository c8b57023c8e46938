package eventjson

import (
	"math"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// wholeFloat reads a number that is spelled with a point or an exponent, or is beyond int64; the result is the nearest
// int64 towards 0, and 0 if s is no number. neg says that a minus stood before s.
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

// finiteNumber reads a number for JSON, which lacks infinities and NaN: these, and what is no number, are 0.
func finiteNumber[T string | []byte](s T) float64 {
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}

// parseTime reads a timestamp of protobuf's JSON, RFC 3339, as Unix nanoseconds. What is before 1970 or later than
// int64 nanoseconds can hold, which no clock of a cluster shows, is refused.
func parseTime(s []byte) (ns int64, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || t.Unix() < 0 || t.Unix() >= endOfTimes {
		return 0, false
	}
	return t.UnixNano(), true
}

const endOfTimes = math.MaxInt64 / int64(time.Second) // in 2262

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
