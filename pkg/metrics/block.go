package metrics

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/value"
)

// block is one hour of a node's metrics in memory: for each series the values that changed, and the read of its target
// at which each changed. When a series is no longer exposed, its value is the one that Prometheus calls a stale marker.
type block struct {
	targets []blockTarget // in order of their id
	series  []uint32      // numbers of the dictionary, ascending
	first   []uint32      // the changes of series i are [first[i], first[i+1])
	at      []uint16      // index of a change's read among its target's
	values  []float64
}

// blockTarget is the reads of a target, in order of time.
type blockTarget struct {
	id    uint32 // of the dictionary
	times []int64
	pause int64 // the longest time between two of these; 0: there is one
}

// blockTargetBytes is what a target takes in a block besides its times.
const blockTargetBytes = 40

// maxPause is the longest time from one read of a target to the next, in milliseconds: that of hardware figures.
const maxPause = int64(5 * time.Minute / time.Millisecond)

// goneAt is when a target that is not read again counts as gone: when two reads are missing, as in Prometheus.
func (t *blockTarget) goneAt() int64 {
	return t.times[len(t.times)-1] + 2*min(cmp.Or(t.pause, maxPause), maxPause)
}

// staleMarker is the value of a series that is no longer exposed.
var staleMarker = math.Float64frombits(value.StaleNaN)

// maxReads bounds the reads of one target in an hour: one every 55 ms.
const maxReads = math.MaxUint16

// targetByID returns what the block has of a target; nil if it has nothing.
func (b *block) targetByID(id uint32) *blockTarget {
	i, found := slices.BinarySearchFunc(b.targets, id,
		func(t blockTarget, id uint32) int { return cmp.Compare(t.id, id) })
	if !found {
		return nil
	}
	return &b.targets[i]
}

// changesOf returns the changes of a series: the reads that had a new value, and the values. There are none if the
// block does not have the series.
func (b *block) changesOf(series uint32) (at []uint16, values []float64) {
	i, found := slices.BinarySearch(b.series, series)
	if !found {
		return nil, nil
	}
	from, to := b.first[i], b.first[i+1]
	return b.at[from:to], b.values[from:to]
}

// memoryBytes returns how much memory the block takes.
func (b *block) memoryBytes() int64 {
	n := int64(len(b.series))*8 + int64(len(b.at))*10 + 256
	for _, t := range b.targets {
		n += int64(len(t.times))*timeBytes + blockTargetBytes
	}
	return n
}
