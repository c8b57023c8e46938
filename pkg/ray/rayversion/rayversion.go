// Package rayversion reads and compares versions of Ray.
package rayversion

import (
	"slices"
	"strconv"
	"strings"
)

// Version is a release: major, minor and patch.
type Version [3]int

// Parse reads the release that a version is or leads to: 2.60.0 of 2.60.0rc1, 3.0.0 of 3.0.0.dev0. What is no number is
// 0. known says that it has a major and a minor number: the tag of an image may be any text.
func Parse(text string) (v Version, known bool) {
	numbers := 0
	for i, part := range strings.SplitN(text, ".", len(v)) {
		rest := strings.TrimLeft(part, "0123456789")
		n, err := strconv.Atoi(strings.TrimSuffix(part, rest))
		v[i] = n // the largest int if there are too many digits
		if err == nil && numbers == i {
			numbers++
		}
	}
	return v, numbers > 1
}

// Compare is negative if v is before other, and positive if it is after it.
func (v Version) Compare(other Version) int { return slices.Compare(v[:], other[:]) }

// Before says whether a version is known to be before a release, such as Version{2, 55}.
func Before(text string, release Version) bool {
	v, known := Parse(text)
	return known && v.Compare(release) < 0
}

// Since says whether a version is known to be a release or a later one.
func Since(text string, release Version) bool {
	v, known := Parse(text)
	return known && v.Compare(release) >= 0
}
