//go:build !race

// Package race says whether the race detector is on. With it, comparisons of whole sessions take ten times as long, and
// a second one finds nothing new, so tests leave some out.
package race

// Enabled says that it is not.
const Enabled = false
