package settings

import (
	"fmt"
	"math"
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

// Bytes is a flag's value that is a number of bytes: 1048576, 512MiB, 2Gi or 1.5GB. Ki, Mi, Gi and Ti are powers of
// 1024, K, M, G and T of 1000, as in Kubernetes; a B may follow.
type Bytes int64

var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KI", 1 << 10}, {"MI", 1 << 20}, {"GI", 1 << 30}, {"TI", 1 << 40}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
}

// Set parses a number of bytes with or without a unit, such as 512MiB or 2GiB. Less than one byte is an error; a
// fraction of a byte is dropped.
func (b *Bytes) Set(s string) error {
	number, scale := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B"), 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, scale = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// The condition is negated so that NaN is refused. Half of the largest int64: that one cannot be told from one more
	// as a float64.
	if err != nil || !(n*scale >= 1 && n*scale <= math.MaxInt64/2) {
		return fmt.Errorf("%q: want a number of bytes, such as 512MiB or 2GiB", s)
	}
	*b = Bytes(n * scale)
	return nil
}

// String writes the value in the largest unit of 1024 that divides it; "" if it is not set.
func (b *Bytes) String() string {
	if *b == 0 {
		return ""
	}
	n, unit := int64(*b), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type names the value in the usage of flags.
func (b *Bytes) Type() string { return "bytes" }
