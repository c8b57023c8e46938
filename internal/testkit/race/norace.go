//go:build !race

package race

// Enabled says that it is not.
const Enabled = false
