package settings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Duration is a flag's value that is a time: 30d, 2w, 36h, 1w3d12h. A day is 24 hours, a week seven days; smaller units
// are as time.ParseDuration has them.
type Duration time.Duration

// DurationVar adds a flag for a time.
func DurationVar(fs *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	fs.Var((*Duration)(d), name, usage)
}

var daysOrWeeks = regexp.MustCompile(`(\d+(?:\.\d*)?|\.\d+)([dw])`)

// Set parses a duration, which may have days (d) and weeks (w) besides the units of time.ParseDuration.
func (d *Duration) Set(s string) error {
	hours := daysOrWeeks.ReplaceAllStringFunc(s, func(part string) string {
		n, _ := strconv.ParseFloat(part[:len(part)-1], 64) // the pattern's numbers all parse
		if n *= 24; part[len(part)-1] == 'w' {
			n *= 7
		}
		return strconv.FormatFloat(n, 'f', -1, 64) + "h"
	})
	parsed, err := time.ParseDuration(hours)
	if err != nil {
		return fmt.Errorf("%q: want a duration, such as 30d, 2w or 12h", s)
	}
	*d = Duration(parsed)
	return nil
}

// String writes whole days as days, such as 30d, and other durations in hours, minutes and seconds, without those at
// the end that are zero.
func (d *Duration) String() string {
	const day = Duration(24 * time.Hour)
	if *d != 0 && *d%day == 0 {
		return strconv.FormatInt(int64(*d/day), 10) + "d"
	}
	s := time.Duration(*d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Type names the value in the usage of flags.
func (d *Duration) Type() string { return "duration" }
