//go:build race

// Package race says whether the race detector is on, which makes comparisons of whole sessions take ten times as long and learns nothing
// from the second one.
package race

// Enabled says that it is.
const Enabled = true
