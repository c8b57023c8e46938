//go:build race

package race

// Enabled says that it is.
const Enabled = true
