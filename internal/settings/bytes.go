package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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
