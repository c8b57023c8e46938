// Package garbage sets the soft memory limit of Go's garbage collector.
package garbage

import (
	"os"
	"runtime/debug"
)

// baseMemory is the memory that the process needs besides what is limited, in bytes.
const baseMemory = 128 << 20

// Limit sets the soft memory limit of Go's garbage collector to the configured bytes plus those of the process itself,
// unless GOMEMLIMIT is set.
func Limit(configured int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(configured + baseMemory)
	}
}
