package promapi

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// parseTime reads a time as the API takes it: Unix seconds with a fraction, or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || math.Abs(seconds) > maxSeconds {
			return time.Time{}, fmt.Errorf("%q is no time", text)
		}
		whole, fraction := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(fraction*1000))*int64(time.Millisecond)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%q is neither Unix seconds nor RFC 3339", text)
	}
	return t, nil
}

// maxSeconds keeps times within what milliseconds in 64 bits hold.
const maxSeconds = 1 << 52

// parseDuration reads a duration as the API takes it: seconds with a fraction, or as in 1m30s.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if d := seconds * float64(time.Second); math.Abs(d) < math.MaxInt64 {
			return time.Duration(d), nil
		}
		return 0, fmt.Errorf("%q is too long", text)
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write seconds, or a duration such as 15s or 1m30s", text)
	}
	return time.Duration(d), nil
}
