package storetest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Allocated is how many bytes do allocates.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Peak is how much more memory do takes at most than before, as seen every millisecond by a collector of garbage that
// runs often: see debug.SetGCPercent.
func Peak(percent int, do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	debug.FreeOSMemory()
	heap := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before, peak := heap(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			peak = max(peak, heap())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	<-done
	return max(peak, before) - before
}
