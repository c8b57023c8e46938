// Package garbage sets the limits of Go's garbage collector: how much memory the process may use, and how much of it may be garbage.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// baseMemory is the memory that the process needs besides what is limited, in bytes.
const baseMemory = 128 << 20

// Limit sets the soft memory limit of Go's garbage collector to the configured bytes plus those of the process itself, unless GOMEMLIMIT is set.
func Limit(configured int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(configured + baseMemory)
	}
}

// minGarbage is how much garbage there may be at least before it is collected, in bytes.
const minGarbage = 32 << 20

// Spare allows as much garbage as the heap has in use, as usual, but does not count the memory of a list of sessions: it hardly changes and has few
// pointers, so it costs a collection little. Otherwise a list of a million sessions would take twice its memory. If GOGC is set, Spare does
// nothing.
func Spare(list func() int64) (stop func()) {
	var stopped atomic.Bool
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(100)
	var collected func(int)
	collected = func(int) {
		if stopped.Load() {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(percent(int64(live[0].Value.Uint64()), list()))
		runtime.AddCleanup(new([16]byte), collected, 0) // at the next collection
	}
	collected(0)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// percent is the garbage that there may be, in percent of the live heap.
func percent(live, list int64) int {
	if live <= minGarbage {
		return 100
	}
	return int(max(minGarbage, min(live, live-list)) * 100 / live)
}
