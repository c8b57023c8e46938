package main

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/cgroup"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

const (
	// baseMemory is the memory of the collector without event bodies and chunks in progress, in bytes. It includes
	// garbage.
	baseMemory = 48 << 20
	// minEventBody is enough for Ray's batches: 10,000 events of some kilobyte
	// (RAY_DASHBOARD_AGGREGATOR_AGENT_MAX_EVENT_SEND_BATCH_SIZE). Larger bodies are accepted if memory allows.
	minEventBody = 16 << 20
	// bodyCopies is the maximum number of copies of a body in memory: two while its buffer grows.
	bodyCopies = 2
)

// memory is the plan for the collector's memory, in bytes.
type memory struct {
	// soft is Go's memory limit, from which the garbage collector works harder.
	soft int64
	// eventBody is the largest accepted body of events.
	eventBody int64
	// wanted is the smallest limit that is enough for everything.
	wanted int64
}

// planMemory plans how a collector uses the memory of its container while it uploads at most so many chunks at a time,
// each of at most chunk bytes. limit is the container's limit in bytes; 0 means none. Even without a limit the
// collector takes no more than it needs, because Ray's pods are sized for Ray. A tenth of the limit is left for memory
// that Go does not count. With less memory it accepts smaller bodies of events, but at least minEventBody.
func planMemory(limit int64, uploads int, chunk int64) memory {
	fixed := baseMemory + int64(uploads)*chunk // what does not depend on the size of event bodies
	m := memory{eventBody: sink.DefaultMaxBody, wanted: (fixed + bodyCopies*minEventBody) / 9 * 10}
	m.soft = fixed + bodyCopies*m.eventBody
	if limit == 0 {
		return m
	}
	usable := limit / 10 * 9
	m.eventBody = min(max((usable-fixed)/bodyCopies, minEventBody), sink.DefaultMaxBody)
	m.soft = min(m.soft, usable)
	return m
}

// limitMemory sets Go's memory limit by the container's limit, unless GOMEMLIMIT sets it, and returns the maximum size
// of a body of events in bytes. It warns of a limit that is too small. root is the file system's root.
func (o *options) limitMemory(root fs.FS, log logrus.FieldLogger) (eventBody int64) {
	limit := cgroup.MemoryLimit(root)
	given := os.Getenv("GOMEMLIMIT") != ""
	goLimit := debug.SetMemoryLimit(-1) // only reads it
	if given && goLimit < math.MaxInt64 && (limit == 0 || goLimit < limit) {
		limit = goLimit
	}
	m := planMemory(limit, o.Ship.Concurrency, o.Ship.MaxChunk)
	if limit > 0 && limit < m.wanted {
		log.Warnf("the memory limit of %d MiB is too small for the data that may be in memory at the same time: give "+
			"the container %d MiB, or lower --upload-concurrency or --max-chunk-bytes",
			limit>>20, m.wanted>>20+1) // rounded up
	}
	if !given {
		debug.SetMemoryLimit(m.soft)
	}
	log.Debugf("memory: limit %d, soft limit %d, bodies of events up to %d bytes", limit, m.soft, m.eventBody)
	return m.eventBody
}
